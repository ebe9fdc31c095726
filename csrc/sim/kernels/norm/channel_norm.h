// SPDX-License-Identifier: BSD-3-Clause
//
// Mean and variance of every channel of [a, k, b], and (x - mean) * rstd * weight + bias over [n, g, d, s].
//
// Sums are taken over fixed parts of the input and combined in order, so they do not depend on threads. Where the
// innermost run is short, columns (a channel and a position in it) are accumulated side by side instead.
#pragma once

#include <cmath>

#include "kernel_parameters.h"
#include "sim/kernels/base/dispatch.h"
#include "sim/kernels/base/dispatch_check.h"
#include "sim/kernels/base/dispatch_dims.h"
#include "sim/kernels/base/scratch_array.h"
#include "sim/kernels/norm/softmax_math.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

enum StatisticsOperand { kMean, kRstd, kRunningMean, kRunningVar, kIn };
enum ApplyOperand { kApplyOut, kApplyIn, kApplyMean, kApplyRstd, kApplyWeight, kApplyBias };

constexpr int64_t kShortRun = 16;         // runs below this many elements are taken as columns
constexpr int64_t kPieceElements = 4096;  // elements that are converted at once
constexpr int64_t kChunkElements = 16384;
constexpr int64_t kColumns = 256;
constexpr int64_t kRowsInT = 64;  // rows that are summed in T before they go to double
constexpr int64_t kMaxParts = 32;

template <class T>
class ChannelStatistics {
 public:
  explicit ChannelStatistics(const Launch& launch)
      : l(launch), in(l.operand(kIn)), parameters_(ChannelNormStatisticsParameters::read(l.desc)) {
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
    for (int64_t c = 0; c < k_; ++c) finish(c, means[c], squares[c], n);
    return true;
  }

 private:
  // Sums of x, or of (x - mean)^2 once there are means.
  bool reduce(double* result) {
    if (a_ * b_ == 0) return std::fill_n(result, k_, 0.0), true;
    return columns_ ? reduce_columns(result) : reduce_runs(result);
  }

  double sum_run(const T* x, int64_t n, int64_t channel) const {
    if (means_ == nullptr) {
      return sum_terms<T>(n, [&](int64_t i, int count) {
        return count == kLanes<T> ? load_vector(x + i) : load_some<T>(x + i, count);
      });
    }
    const T mean = means_[channel];
    const auto m = broadcast(mean);
    return sum_terms<T>(n, [&](int64_t i, int count) {
      const auto d = (count == kLanes<T> ? load_vector(x + i) : load_some<T>(x + i, count, mean)) - m;
      return d * d;
    });
  }

  bool reduce_runs(double* result) {
    const int64_t chunks = ceil_div(b_, kChunkElements), units = a_ * chunks;
    const int64_t parts = k_ >= kMaxParts ? 1 : min_of(min_of(units, kMaxParts), ceil_div(a_ * b_, kChunkElements));
    ScratchArray<double> partial(k_ * parts);
    if (!partial) return false;
    const bool direct = in.dtype == kNativeOf<T> && in.strides[2] == 1;
    parallel_for(k_ * parts, grain_for(a_ * b_ / parts), [&](int64_t begin, int64_t end) {
      alignas(64) T buffer[kPieceElements];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t channel = i / parts, part = i % parts;
        double sum = 0;
        for (int64_t u = units * part / parts; u < units * (part + 1) / parts; ++u) {
          const int64_t first = u % chunks * kChunkElements, n = min_of(kChunkElements, b_ - first);
          const void* run =
              at(l.data[kIn], in.dtype, u / chunks * in.strides[0] + channel * in.strides[1] + first * in.strides[2]);
          if (direct) {
            sum += sum_run(static_cast<const T*>(run), n, channel);
            continue;
          }
          for (int64_t j = 0; j < n; j += kPieceElements) {
            const int64_t count = min_of(kPieceElements, n - j);
            load_run(at(run, in.dtype, j * in.strides[2]), in.dtype, in.strides[2], count, buffer);
            sum += sum_run(buffer, count, channel);
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

  bool reduce_columns(double* result) {
    const int64_t width = k_ * b_, blocks = ceil_div(width, kColumns);
    const int64_t parts = blocks >= kMaxParts ? 1 : min_of(ceil_div(a_, kRowsInT), kMaxParts);
    ScratchArray<double> partial(parts * width);
    if (!partial) return false;
    const bool direct = in.dtype == kNativeOf<T>;
    parallel_for(blocks * parts, grain_for(min_of(width, kColumns) * ceil_div(a_, parts > 0 ? parts : 1)),
                 [&](int64_t begin, int64_t end) {
                   alignas(64) T buffer[kColumns], sums[kColumns], mean[kColumns];
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t part = i % parts, first = i / parts * kColumns;
                     const int64_t n = min_of(kColumns, width - first);
                     double* total = partial.get() + part * width + first;
                     for (int64_t c = 0; c < n; ++c) {
                       total[c] = 0, sums[c] = 0;
                       mean[c] = means_ ? means_[(first + c) / b_] : T(0);
                     }
                     const int64_t last = a_ * (part + 1) / parts;
                     int64_t pending = 0;
                     for (int64_t r = a_ * part / parts; r < last; ++r) {
                       const void* p = at(l.data[kIn], in.dtype, r * in.strides[0] + first);
                       const T* x = static_cast<const T*>(p);
                       if (!direct) load_run(p, in.dtype, 1, n, buffer), x = buffer;
                       if (means_) {
                         for (int64_t c = 0; c < n; ++c) sums[c] += (x[c] - mean[c]) * (x[c] - mean[c]);
                       } else {
                         for (int64_t c = 0; c < n; ++c) sums[c] += x[c];
                       }
                       if (++pending < kRowsInT && r + 1 < last) continue;
                       for (int64_t c = 0; c < n; ++c) total[c] += static_cast<double>(sums[c]), sums[c] = 0;
                       pending = 0;
                     }
                   }
                 });
    for (int64_t c = 0; c < k_; ++c) {
      result[c] = 0;
      for (int64_t p = 0; p < parts; ++p) {
        for (int64_t j = 0; j < b_; ++j) result[c] += partial[p * width + c * b_ + j];
      }
    }
    return true;
  }

  void store(int i, int64_t c, double value) const {
    const atalla_operand& o = l.operand(i);
    store_run(&value, 1, at(l.data[i], o.dtype, c * o.strides[0]), o.dtype, 1);
  }
  // running = momentum * value + (1 - momentum) * running
  void advance(int i, int64_t c, double value) const {
    if (l.data[i] == nullptr) return;
    const atalla_operand& o = l.operand(i);
    const double momentum = parameters_.momentum;
    store(i, c, momentum * value + (1 - momentum) * element_of<double>(l.data[i], o.dtype, c * o.strides[0]));
  }

  void finish(int64_t c, T mean, double squares, double n) const {
    const double eps = parameters_.eps, variance = squares / n;
    const bool degenerate = parameters_.zero_variance && variance == 0 && eps == 0;
    store(kMean, c, static_cast<double>(mean));
    store(kRstd, c, degenerate ? 0 : 1 / std::sqrt(variance + eps));
    advance(kRunningMean, c, static_cast<double>(mean));
    advance(kRunningVar, c, squares / (n - 1));
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
        in(l.operand(kApplyIn)),
        out(l.operand(kApplyOut)),
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
    T rstd = parameter(kApplyRstd, n, g, d, 1);
    if (parameters_.from_variance) rstd = static_cast<T>(1 / std::sqrt(static_cast<double>(rstd) + parameters_.eps));
    return {parameter(kApplyMean, n, g, d, 0), rstd * parameter(kApplyWeight, n, g, d, 1),
            parameter(kApplyBias, n, g, d, 0)};
  }

  static bool direct(const atalla_operand& o, int64_t stride) { return o.dtype == kNativeOf<T> && stride == 1; }

  void run_rows() {
    const bool read_in_place = direct(in, in.strides[3]), write_in_place = direct(out, out.strides[3]);
    const int64_t rows = in.sizes[0] * in.sizes[1] * d_, chunks = ceil_div(s_, kChunkElements);
    parallel_for(rows * chunks, grain_for(min_of(s_, kChunkElements)), [&](int64_t begin, int64_t end) {
      alignas(64) T buffer[kPieceElements];
      for (int64_t u = begin; u < end; ++u) {
        const int64_t r = u / chunks, d = r % d_, g = r / d_ % in.sizes[1], n = r / d_ / in.sizes[1];
        const Affine p = affine(n, g, d);
        const int64_t last = min_of(s_, (u % chunks + 1) * kChunkElements);
        for (int64_t i = u % chunks * kChunkElements; i < last; i += kPieceElements) {
          const int64_t count = min_of(kPieceElements, last - i);
          const void* from = at(l.data[kApplyIn], in.dtype,
                                n * in.strides[0] + g * in.strides[1] + d * in.strides[2] + i * in.strides[3]);
          void* to = at(l.data[kApplyOut], out.dtype,
                        n * out.strides[0] + g * out.strides[1] + d * out.strides[2] + i * out.strides[3]);
          const T* x = static_cast<const T*>(from);
          T* y = write_in_place ? static_cast<T*>(to) : buffer;
          if (!read_in_place) load_run(from, in.dtype, in.strides[3], count, buffer), x = buffer;
          for (int64_t j = 0; j < count; ++j) y[j] = (x[j] - p.mean) * p.factor + p.bias;
          if (!write_in_place) store_run(y, count, to, out.dtype, out.strides[3]);
        }
      }
    });
  }

  // The parameters of a block of columns are spread out once, and used for every row that has the same ones.
  void run_planes() {
    constexpr int64_t kBlock = 512;
    const int64_t width = d_ * s_, blocks = ceil_div(width, kBlock), outer = in.sizes[0] * in.sizes[1];
    bool shared = in.sizes[1] == 1;
    for (int i = kApplyMean; i < l.desc.n_operands; ++i)
      shared = shared && (l.data[i] == nullptr || l.operand(i).strides[0] == 0);
    const bool read_in_place = in.dtype == kNativeOf<T>, write_in_place = out.dtype == kNativeOf<T>;
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
        const void* from = at(l.data[kApplyIn], in.dtype, n * in.strides[0] + g * in.strides[1] + first);
        void* to = at(l.data[kApplyOut], out.dtype, n * out.strides[0] + g * out.strides[1] + first);
        const T* x = static_cast<const T*>(from);
        T* y = write_in_place ? static_cast<T*>(to) : buffer;
        if (!read_in_place) load_run(from, in.dtype, 1, count, buffer), x = buffer;
        for (int64_t j = 0; j < count; ++j) y[j] = (x[j] - mean[j]) * factor[j] + bias[j];
        if (!write_in_place) store_run(y, count, to, out.dtype, 1);
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
