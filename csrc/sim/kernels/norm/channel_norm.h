// SPDX-License-Identifier: BSD-3-Clause
//
// Mean and variance of every channel of [a, k, b], and (x - mean) * rstd * weight + bias over [n, g, d, s].
//
// Sums are taken over fixed parts of the input and combined in order, so they do not depend on threads. Where the
// innermost run is short, columns (a channel and a position in it) are accumulated side by side instead.
#pragma once

#include <cmath>

#include "sim/kernels/base/common.h"
#include "sim/kernels/norm/softmax_math.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Statistics = ChannelNormStatisticsOperands;
using Apply = ChannelNormApplyOperands;

constexpr int64_t kShortRun = 16;         // runs below this many elements are taken as columns
constexpr int64_t kPieceElements = 4096;  // elements that are converted at once
constexpr int64_t kChunkElements = 16384;
constexpr int64_t kColumns = 256;
constexpr int64_t kRowsInT = 64;  // rows that are summed in T before they go to double
constexpr int64_t kMaxParts = 32;

// Elements that loops over T read and write where they are: T's own, and the bits of BF16 if T is float.
template <class T, class S>
ATALLA_INLINE T widened(S x) {
  if constexpr (std::is_same_v<S, T>) return x;
  else return bfloat16_to_float(x);
}
template <class S, class T>
ATALLA_INLINE S narrowed(T x) {
  if constexpr (std::is_same_v<S, T>) return x;
  else return float_to_bfloat16(x);
}
template <class T>
ATALLA_INLINE bool works_in_place(atalla_dtype d) {
  return d == kNativeOf<T> || (d == ATALLA_BF16 && std::is_same_v<T, float>);
}

// Calls f with `p` as a pointer to the elements of a dtype for which works_in_place is true.
template <class T, class P, class F>
ATALLA_INLINE void with_elements(P* p, atalla_dtype d, F&& f) {
  if constexpr (std::is_same_v<T, float>) {
    if (d == ATALLA_BF16) return f(static_cast<std::conditional_t<std::is_const_v<P>, const uint16_t, uint16_t>*>(p));
  }
  f(static_cast<std::conditional_t<std::is_const_v<P>, const T, T>*>(p));
}

// A vector of elements; `fill` beyond the first `count`.
template <class T, class S>
ATALLA_INLINE Vec<T> load_widened(const S* x, int count, T fill = T(0)) {
  if constexpr (std::is_same_v<S, T>) {
    return count == kLanes<T> ? load_vector(x) : load_some<T>(x, count, fill);
  } else {
    if (count == kLanes<T>) {
      typedef uint16_t Stored __attribute__((vector_size(kVectorBytes / 2)));
      Stored bits;
      std::memcpy(&bits, x, sizeof bits);
      return __builtin_bit_cast(Vec<T>, __builtin_convertvector(bits, Vec<uint32_t>) << 16);
    }
    T line[kLanes<T>];
    for (int i = 0; i < kLanes<T>; ++i) line[i] = i < count ? widened<T>(x[i]) : fill;
    return load_vector(line);
  }
}

template <class T>
class ChannelStatistics {
 public:
  explicit ChannelStatistics(const Launch& launch)
      : l(launch), in(l.operand(Statistics::kInput)), parameters_(ChannelNormStatisticsParameters::read(l.desc)) {
    a_ = in.sizes[0], k_ = in.sizes[1], b_ = in.sizes[2];
    const int64_t row = in.strides[1], run = in.strides[2];
    columns_ = b_ < kShortRun && (b_ <= 1 || run == 1) && (k_ == 1 || row == (b_ == 1 ? 1 : b_));
  }

  // False: no memory.
  bool run() {
    means_ = nullptr;
    ScratchArray<double> sums(k_), squares(k_);
    ScratchArray<T> means(k_);
    if (!sums || !squares || !means) return false;
    if (!reduce(sums.get())) return false;
    const double n = static_cast<double>(a_ * b_);
    for (int64_t c = 0; c < k_; ++c) means[c] = static_cast<T>(sums[c] / n);
    means_ = means.get();
    if (!reduce(squares.get())) return false;
    return finish(means.get(), squares.get(), n);
  }

 private:
  // Sums of x, or of (x - mean)^2 once there are means.
  bool reduce(double* result) {
    if (a_ * b_ == 0) return std::fill_n(result, k_, 0.0), true;
    return columns_ ? reduce_columns(result) : reduce_runs(result);
  }

  template <class S>
  double sum_run(const S* x, int64_t n, int64_t channel) const {
    if (means_ == nullptr) {
      return sum_terms<T>(n, [&](int64_t i, int count) { return load_widened<T>(x + i, count); });
    }
    const T mean = means_[channel];
    const auto m = broadcast(mean);
    return sum_terms<T>(n, [&](int64_t i, int count) {
      const auto d = load_widened<T>(x + i, count, mean) - m;
      return d * d;
    });
  }

  bool reduce_runs(double* result) {
    const int64_t chunks = ceil_div(b_, kChunkElements), units = a_ * chunks;
    const int64_t parts = k_ >= kMaxParts ? 1 : min_of(min_of(units, kMaxParts), ceil_div(a_ * b_, kChunkElements));
    ScratchArray<double> partial(k_ * parts);
    if (!partial) return false;
    const bool in_place = works_in_place<T>(in.dtype) && in.strides[2] == 1;
    const int64_t piece_elements = in_place && in.dtype == kNativeOf<T> ? kChunkElements : kPieceElements;
    parallel_for(k_ * parts, grain_for(a_ * b_ / parts), [&](int64_t begin, int64_t end) {
      alignas(64) T buffer[kPieceElements];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t channel = i / parts, part = i % parts;
        double sum = 0;
        for (int64_t u = units * part / parts; u < units * (part + 1) / parts; ++u) {
          const int64_t first = u % chunks * kChunkElements, n = min_of(kChunkElements, b_ - first);
          const void* run = at(l.data[Statistics::kInput], in.dtype,
                               u / chunks * in.strides[0] + channel * in.strides[1] + first * in.strides[2]);
          for (int64_t j = 0; j < n; j += piece_elements) {
            const int64_t count = min_of(piece_elements, n - j);
            const void* piece = at(run, in.dtype, j * in.strides[2]);
            if (!in_place) load_run(piece, in.dtype, in.strides[2], count, buffer), piece = buffer;
            with_elements<T>(piece, in_place ? in.dtype : kNativeOf<T>,
                             [&](const auto* x) { sum += sum_run(x, count, channel); });
          }
        }
        partial[i] = sum;
      }
    });
    for (int64_t c = 0; c < k_; ++c) {
      result[c] = 0;
      for (int64_t p = 0; p < parts; ++p) result[c] += partial[c * parts + p];
    }
    return true;
  }

  // Adds `rows` rows of n columns, or the squares of their distances from the means, one after the other.
  template <bool kSquares, class S>
  static void add_rows(const S* x, int64_t stride, int64_t rows, int64_t n, const T* mean, T* sums) {
    const auto term = [mean](S element, int64_t c) {
      const T value = widened<T>(element);
      return kSquares ? (value - mean[c]) * (value - mean[c]) : value;
    };
    constexpr int kTogether = 8;  // rows for which a sum stays in a register
    for (; rows >= kTogether; rows -= kTogether, x += kTogether * stride) {
#pragma GCC ivdep
      for (int64_t c = 0; c < n; ++c) {
        T sum = sums[c];
#pragma GCC unroll 8
        for (int k = 0; k < kTogether; ++k) sum += term(x[k * stride + c], c);
        sums[c] = sum;
      }
    }
    for (; rows > 0; --rows, x += stride) {
#pragma GCC ivdep
      for (int64_t c = 0; c < n; ++c) sums[c] += term(x[c], c);
    }
  }

  bool reduce_columns(double* result) {
    const int64_t width = k_ * b_, blocks = ceil_div(width, kColumns);
    const int64_t parts = blocks >= kMaxParts ? 1 : min_of(ceil_div(a_, kRowsInT), kMaxParts);
    ScratchArray<double> partial(parts * width);
    if (!partial) return false;
    const bool in_place = works_in_place<T>(in.dtype);
    parallel_for(blocks * parts, grain_for(min_of(width, kColumns) * ceil_div(a_, parts > 0 ? parts : 1)),
                 [&](int64_t begin, int64_t end) {
                   alignas(64) T buffer[kColumns], sums[kColumns], mean[kColumns];
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t part = i % parts, first = i / parts * kColumns;
                     const int64_t n = min_of(kColumns, width - first);
                     double* total = partial.get() + part * width + first;
                     for (int64_t c = 0; c < n; ++c) {
                       total[c] = 0;
                       mean[c] = means_ ? means_[(first + c) / b_] : T(0);
                     }
                     const int64_t last = a_ * (part + 1) / parts;
                     for (int64_t r = a_ * part / parts, rows; r < last; r += rows) {
                       rows = min_of(kRowsInT, last - r);
                       for (int64_t c = 0; c < n; ++c) sums[c] = 0;
                       const auto add = [&](const auto* x, int64_t count) {
                         if (means_) add_rows<true>(x, in.strides[0], count, n, mean, sums);
                         else add_rows<false>(x, in.strides[0], count, n, mean, sums);
                       };
                       const void* p = at(l.data[Statistics::kInput], in.dtype, r * in.strides[0] + first);
                       if (in_place) {
                         with_elements<T>(p, in.dtype, [&](const auto* x) { add(x, rows); });
                       } else {
                         for (int64_t k = 0; k < rows; ++k) {
                           load_run(at(p, in.dtype, k * in.strides[0]), in.dtype, 1, n, buffer);
                           add(static_cast<const T*>(buffer), 1);
                         }
                       }
                       for (int64_t c = 0; c < n; ++c) total[c] += static_cast<double>(sums[c]);
                     }
                   }
                 });
    std::fill_n(result, k_, 0.0);
    for (int64_t p = 0; p < parts; ++p) {
      const double* sums = partial.get() + p * width;
      if (b_ == 1) {
        for (int64_t c = 0; c < k_; ++c) result[c] += sums[c];
      } else {
        for (int64_t i = 0; i < width; ++i) result[i / b_] += sums[i];
      }
    }
    return true;
  }

  void store(int i, const double* values) const {
    const atalla_operand& o = l.operand(i);
    store_run(values, k_, l.data[i], o.dtype, o.strides[0]);
  }
  // running = momentum * value + (1 - momentum) * running
  void advance(int i, const double* values, double* running) const {
    if (l.data[i] == nullptr) return;
    const atalla_operand& o = l.operand(i);
    const double momentum = parameters_.momentum;
    load_run(l.data[i], o.dtype, o.strides[0], k_, running);
    for (int64_t c = 0; c < k_; ++c) running[c] = momentum * values[c] + (1 - momentum) * running[c];
    store(i, running);
  }

  bool finish(const T* means, const double* squares, double n) const {
    ScratchArray<double> values(k_), running(k_);
    if (!values || !running) return false;
    const double eps = parameters_.eps;
    for (int64_t c = 0; c < k_; ++c) {
      const double variance = squares[c] / n;
      const bool degenerate = parameters_.zero_variance && variance == 0 && eps == 0;
      values[c] = degenerate ? 0 : 1 / std::sqrt(variance + eps);
    }
    store(Statistics::kRstd, values.get());
    for (int64_t c = 0; c < k_; ++c) values[c] = squares[c] / (n - 1);
    advance(Statistics::kRunningVariance, values.get(), running.get());
    for (int64_t c = 0; c < k_; ++c) values[c] = static_cast<double>(means[c]);
    store(Statistics::kMean, values.get());
    advance(Statistics::kRunningMean, values.get(), running.get());
    return true;
  }

  const Launch& l;
  const atalla_operand& in;
  ChannelNormStatisticsParameters parameters_;
  int64_t a_, k_, b_;
  bool columns_;
  const T* means_ = nullptr;
};

template <class T>
class ChannelApply {
 public:
  explicit ChannelApply(const Launch& launch)
      : l(launch),
        in(l.operand(Apply::kInput)),
        out(l.operand(Apply::kOut)),
        parameters_(ChannelNormApplyParameters::read(l.desc)),
        d_(in.sizes[2]),
        s_(in.sizes[3]) {}

  void run() {
    if (s_ < kShortRun && plane_contiguous(in) && plane_contiguous(out)) run_planes();
    else run_rows();
  }

 private:
  bool plane_contiguous(const atalla_operand& o) const {
    return (s_ == 1 || o.strides[3] == 1) && (d_ == 1 || o.strides[2] == s_);
  }

  T parameter(int i, int64_t n, int64_t g, int64_t d, T absent) const {
    if (l.data[i] == nullptr) return absent;
    const atalla_operand& o = l.operand(i);
    return element_of<T>(l.data[i], o.dtype, n * o.strides[0] + g * o.strides[1] + d * o.strides[2]);
  }

  struct Affine {
    T mean, factor, bias;
  };
  Affine affine(int64_t n, int64_t g, int64_t d) const {
    T rstd = parameter(Apply::kRstd, n, g, d, 1);
    if (parameters_.from_variance) rstd = static_cast<T>(1 / std::sqrt(static_cast<double>(rstd) + parameters_.eps));
    return {parameter(Apply::kMean, n, g, d, 0), rstd * parameter(Apply::kWeight, n, g, d, 1),
            parameter(Apply::kBias, n, g, d, 0)};
  }

  // Where one operand is not read or written in place, `buffer` is used, whose elements are T's.
  template <class F>
  static void convert_run(const void* from, const atalla_operand& in, int64_t in_stride, void* to,
                          const atalla_operand& out, int64_t out_stride, int64_t count, T* buffer, F&& f) {
    const bool read_in_place = works_in_place<T>(in.dtype) && in_stride == 1;
    const bool write_in_place = works_in_place<T>(out.dtype) && out_stride == 1;
    if (!read_in_place) load_run(from, in.dtype, in_stride, count, buffer);
    with_elements<T>(read_in_place ? from : buffer, read_in_place ? in.dtype : kNativeOf<T>, [&](const auto* x) {
      with_elements<T>(write_in_place ? to : buffer, write_in_place ? out.dtype : kNativeOf<T>, [&](auto* y) {
        using D = std::remove_reference_t<decltype(*y)>;
#pragma GCC ivdep
        for (int64_t j = 0; j < count; ++j) y[j] = narrowed<D>(f(widened<T>(x[j]), j));
      });
    });
    if (!write_in_place) store_run(buffer, count, to, out.dtype, out_stride);
  }

  void run_rows() {
    const int64_t rows = in.sizes[0] * in.sizes[1] * d_, chunks = ceil_div(s_, kChunkElements);
    parallel_for(rows * chunks, grain_for(min_of(s_, kChunkElements)), [&](int64_t begin, int64_t end) {
      alignas(64) T buffer[kPieceElements];
      for (int64_t u = begin; u < end; ++u) {
        const int64_t r = u / chunks, d = r % d_, g = r / d_ % in.sizes[1], n = r / d_ / in.sizes[1];
        const Affine p = affine(n, g, d);
        const int64_t last = min_of(s_, (u % chunks + 1) * kChunkElements);
        for (int64_t i = u % chunks * kChunkElements; i < last; i += kPieceElements) {
          const int64_t count = min_of(kPieceElements, last - i);
          const void* from = at(l.data[Apply::kInput], in.dtype,
                                n * in.strides[0] + g * in.strides[1] + d * in.strides[2] + i * in.strides[3]);
          void* to = at(l.data[Apply::kOut], out.dtype,
                        n * out.strides[0] + g * out.strides[1] + d * out.strides[2] + i * out.strides[3]);
          convert_run(from, in, in.strides[3], to, out, out.strides[3], count, buffer,
                      [p](T x, int64_t) { return (x - p.mean) * p.factor + p.bias; });
        }
      }
    });
  }

  // The parameters of a block of columns are spread out once, and used for every row that has the same ones.
  void run_planes() {
    constexpr int64_t kBlock = 512;
    const int64_t width = d_ * s_, blocks = ceil_div(width, kBlock), outer = in.sizes[0] * in.sizes[1];
    bool shared = in.sizes[1] == 1;
    for (int i = Apply::kMean; i < l.desc.n_operands; ++i)
      shared = shared && (l.data[i] == nullptr || l.operand(i).strides[0] == 0);
    parallel_for(blocks * outer, grain_for(min_of(width, kBlock)), [&](int64_t begin, int64_t end) {
      alignas(64) T buffer[kBlock], mean[kBlock], factor[kBlock], bias[kBlock];
      int64_t spread = -1;
      for (int64_t u = begin; u < end; ++u) {
        const int64_t first = u / outer * kBlock, count = min_of(kBlock, width - first);
        const int64_t n = u % outer / in.sizes[1], g = u % outer % in.sizes[1];
        if (!shared || spread != first) {
          Affine p{};
          for (int64_t j = 0; j < count; ++j) {
            if (j == 0 || (first + j) % s_ == 0) p = affine(n, g, (first + j) / s_);
            mean[j] = p.mean, factor[j] = p.factor, bias[j] = p.bias;
          }
          spread = first;
        }
        const void* from = at(l.data[Apply::kInput], in.dtype, n * in.strides[0] + g * in.strides[1] + first);
        void* to = at(l.data[Apply::kOut], out.dtype, n * out.strides[0] + g * out.strides[1] + first);
        convert_run(from, in, 1, to, out, 1, count, buffer,
                    [&](T x, int64_t j) { return (x - mean[j]) * factor[j] + bias[j]; });
      }
    });
  }

  const Launch& l;
  const atalla_operand &in, &out;
  ChannelNormApplyParameters parameters_;
  int64_t d_, s_;
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
