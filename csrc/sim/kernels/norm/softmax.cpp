// SPDX-License-Identifier: BSD-3-Clause
//
// softmax and log_softmax over one dimension: out = e^(x - max) / sum, or (x - max) - log(sum), in F32 (F64 for F64).
// A row that is contiguous, or short, is one run; where another dimension is the contiguous one, a block of its columns
// is processed at once. A row with a NaN, with +inf, or of -inf alone gives NaN, as upstream.
#include <cmath>

#include "sim/kernels/base/common.h"
#include "sim/kernels/base/lines.h"
#include "sim/kernels/norm/softmax_math.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = SoftmaxOperands;

constexpr int64_t kBufferElements = 8192;  // of a row that needs conversion; longer ones are converted once a pass
constexpr int64_t kColumns = 128;          // of a block

// dst[i] = e^(src[i] - max), and their sum. dst may be src; null: the sum only.
template <class T>
double exp_and_sum(const T* src, T max, int64_t n, T* dst) {
  const auto shift = broadcast(max);
  return sum_terms<T>(n, [&](int64_t i, int count) {
    if (count == kLanes<T>) {
      const auto e = exp_nonpositive<T>(load_vector(src + i) - shift);
      if (dst) store_vector(dst + i, e);
      return e;
    }
    // Lanes beyond the row are -inf after the shift, even when max is NaN or infinite.
    const auto x = load_some<T>(src + i, count) - shift;
    T lanes[kLanes<T>];
    store_vector(lanes, x);
    const auto e = exp_nonpositive<T>(load_some<T>(lanes, count, -__builtin_inf()));
    if (dst) store_some(dst + i, e, count);
    return e;
  });
}

struct Row {
  const void* in;
  void* out;
};

template <class T>
struct Softmax : Lines {
  const bool log;

  Softmax(const Launch& l, int64_t dim, bool logarithm)
      : Lines(l, Operand::kOut, Operand::kInput, dim), log(logarithm) {}

  bool plain_in(int64_t stride) const { return in_dtype == kNativeOf<T> && compute == kNativeOf<T> && stride == 1; }
  bool plain_out(int64_t stride) const { return out_dtype == kNativeOf<T> && stride == 1; }

  void finish(const T* src, T max, double sum, int64_t n, T* dst) const {
    if (log) {
      const T log_sum = static_cast<T>(std::log(sum));
      for (int64_t i = 0; i < n; ++i) dst[i] = (src[i] - max) - log_sum;
    } else {
      const T scale = static_cast<T>(1 / sum);
      for (int64_t i = 0; i < n; ++i) dst[i] = src[i] * scale;
    }
  }

  void row(const Row& r, T* buffer) const {
    const bool direct_in = plain_in(in_stride), direct_out = plain_out(out_stride);
    if (size > kBufferElements && !(direct_in && direct_out)) return long_row(r, buffer);
    const T* src = static_cast<const T*>(r.in);
    if (!direct_in) {
      load_as(r.in, in_dtype, compute, in_stride, size, buffer);
      src = buffer;
    }
    T* dst = direct_out ? static_cast<T*>(r.out) : buffer;
    const T max = largest_of(src, size);
    if (log) {
      finish(src, max, exp_and_sum<T>(src, max, size, nullptr), size, dst);
    } else {
      const double sum = exp_and_sum(src, max, size, dst);
      finish(dst, max, sum, size, dst);
    }
    if (!direct_out) store_run(buffer, size, r.out, out_dtype, out_stride);
  }

  // The row in pieces of a buffer: the exponentials are computed twice and never stored.
  void long_row(const Row& r, T* buffer) const {
    const auto load = [&](int64_t i) {
      const int64_t n = size - i < kBufferElements ? size - i : kBufferElements;
      load_as(at(r.in, in_dtype, i * in_stride), in_dtype, compute, in_stride, n, buffer);
      return n;
    };
    T max = -__builtin_inf();
    for (int64_t i = 0; i < size; i += kBufferElements) {
      const T m = largest_of(buffer, load(i));
      max = m > max ? m : max;
    }
    double sum = 0;
    for (int64_t i = 0; i < size; i += kBufferElements) {
      const int64_t n = load(i);
      sum += exp_and_sum<T>(buffer, max, n, nullptr);
    }
    for (int64_t i = 0; i < size; i += kBufferElements) {
      const int64_t n = load(i);
      if (!log) exp_and_sum(buffer, max, n, buffer);
      finish(buffer, max, sum, n, buffer);
      store_run(buffer, n, at(r.out, out_dtype, i * out_stride), out_dtype, out_stride);
    }
  }

  // `columns` adjacent columns; in_stride and out_stride are between rows of them.
  void block(const Row& r, int64_t columns) const {
    T max[kColumns], sum[kColumns], work[kColumns];
    double total[kColumns];
    constexpr int64_t kSegment = 256;  // rows after which the sums move to double
    // A full vector may read beyond `columns` in these arrays, never in DRAM.
    for (int64_t c = 0; c < kColumns; ++c) max[c] = -__builtin_inf(), sum[c] = 0, total[c] = 0, work[c] = 0;
    const auto load = [&](int64_t i) {
      const char* p = at(r.in, in_dtype, i * in_stride);
      if (plain_in(1)) std::memcpy(work, p, columns * sizeof(T));
      else load_as(p, in_dtype, compute, 1, columns, work);
    };
    const auto exponentials = [&] {
      for (int64_t c = 0; c < columns; c += kLanes<T>) {
        store_vector(work + c, exp_nonpositive<T>(load_vector(work + c) - load_vector(max + c)));
      }
    };
    for (int64_t i = 0; i < size; ++i) {
      load(i);
      for (int64_t c = 0; c < columns; ++c) max[c] = work[c] > max[c] ? work[c] : max[c];
    }
    const bool keep = !log && plain_out(1);  // the exponentials wait in out for the division
    for (int64_t i = 0; i < size; ++i) {
      load(i);
      exponentials();
      for (int64_t c = 0; c < columns; ++c) sum[c] += work[c];
      if (keep) std::memcpy(at(r.out, out_dtype, i * out_stride), work, columns * sizeof(T));
      if ((i + 1) % kSegment == 0 || i + 1 == size) {
        for (int64_t c = 0; c < columns; ++c) total[c] += sum[c], sum[c] = 0;
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      sum[c] = log ? static_cast<T>(std::log(total[c])) : static_cast<T>(1 / total[c]);
    }
    for (int64_t i = 0; i < size; ++i) {
      void* out = at(r.out, out_dtype, i * out_stride);
      if (keep) {
        T* o = static_cast<T*>(out);
        for (int64_t c = 0; c < columns; ++c) o[c] *= sum[c];
        continue;
      }
      load(i);
      if (log) {
        for (int64_t c = 0; c < columns; ++c) work[c] = (work[c] - max[c]) - sum[c];
      } else {
        exponentials();
        for (int64_t c = 0; c < columns; ++c) work[c] *= sum[c];
      }
      store_run(work, columns, out, out_dtype, 1);
    }
  }

  void run() const {
    const auto columns = [&](const char* in, char* out, int64_t count) { block({in, out}, count); };
    if (size > 1 && run_side_by_side(kColumns, columns)) return;
    parallel_for(others.count(), grain_for(size), [&](int64_t begin, int64_t end) {
      alignas(64) T buffer[kBufferElements];
      Cursor<2> at_row(others, begin);
      for (int64_t i = begin; i < end; ++i, at_row.next()) row({in_at(at_row), out_at(at_row)}, buffer);
    });
  }
};

template <bool kLog>
atalla_status run_softmax(const Launch& l) {
  const int64_t dim = SoftmaxParameters::read(l.desc).dim;
  if (element_count(l.operand(Operand::kInput)) == 0) return ATALLA_OK;
  if (l.desc.compute_dtype == ATALLA_F64) Softmax<double>(l, dim, kLog).run();
  else Softmax<float>(l, dim, kLog).run();
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily softmax_kernels = {
    {"softmax", kFloatDtypes, run_softmax<false>},
    {"log_softmax", kFloatDtypes, run_softmax<true>},
};

}  // namespace atalla::sim::ATALLA_ISA
