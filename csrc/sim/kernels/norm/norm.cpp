// SPDX-License-Identifier: BSD-3-Clause
//
// layer_norm: out = (x - mean) * rstd * weight + bias over the rows of [m, n], rstd = 1 / sqrt(variance + eps) with the
// biased variance in a second pass. rms_norm: the same with 0 for the mean, in one pass less. F32 arithmetic (F64 for
// F64), sums as in softmax_math.h.
#include <cmath>

#include "sim/kernels/base/common.h"
#include "sim/kernels/norm/softmax_math.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kBufferElements = 4096;  // longer rows that need conversion are converted in pieces

using Operand = LayerNormOperands;
constexpr int kOperands = Operand::kBias + 1;

// A run of an operand as T: the elements themselves where their form allows it, else converted into a buffer.
template <class T>
struct Run {
  const void* base = nullptr;
  atalla_dtype dtype = 0, compute = 0;
  int64_t stride = 1;
  bool direct = true;

  Run() = default;
  Run(const void* p, const atalla_operand& o, int64_t s, atalla_dtype c) : base(p), dtype(o.dtype), compute(c) {
    stride = s;
    direct = p == nullptr || (dtype == kNativeOf<T> && compute == kNativeOf<T> && stride == 1);
  }
  const T* read(int64_t i, int64_t n, T* buffer) const {
    if (base == nullptr) return nullptr;
    const void* p = at(base, dtype, i * stride);
    if (direct) return static_cast<const T*>(p);
    load_as(p, dtype, compute, stride, n, buffer);
    return buffer;
  }
};

template <class T>
ATALLA_INLINE double sum_of(const T* x, int64_t n) {
  return sum_terms<T>(
      n, [&](int64_t i, int count) { return count == kLanes<T> ? load_vector(x + i) : load_some<T>(x + i, count); });
}

template <class T>
ATALLA_INLINE double sum_of_squares(const T* x, T mean, int64_t n) {
  const auto m = broadcast(mean);
  return sum_terms<T>(n, [&](int64_t i, int count) {
    const auto d = (count == kLanes<T> ? load_vector(x + i) : load_some<T>(x + i, count, mean)) - m;
    return d * d;
  });
}

template <class T>
void normalize(const T* x, T mean, T rstd, const T* weight, const T* bias, int64_t n, T* out) {
  if (weight && bias) {
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
  } else if (weight) {
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd * weight[i];
  } else if (bias) {
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd + bias[i];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd;
  }
}

template <class T, bool kCentered>
struct LayerNorm {
  const Launch& l;
  int64_t n, piece;  // elements of a row, and of what is processed at once
  double eps;

  void rows(int64_t begin, int64_t end) const {
    alignas(64) T in_buffer[kBufferElements], weight_buffer[kBufferElements], bias_buffer[kBufferElements];
    const atalla_dtype compute = l.desc.compute_dtype;
    const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput);
    const Run<T> weight = optional(Operand::kWeight), bias = optional(Operand::kBias);
    const T *w = weight.read(0, piece, weight_buffer), *b = bias.read(0, piece, bias_buffer);
    for (int64_t r = begin; r < end; ++r) {
      const Run<T> x(at(l.data[Operand::kInput], in.dtype, r * in.strides[0]), in, in.strides[1], compute);
      const Run<T> y(at(l.data[Operand::kOut], out.dtype, r * out.strides[0]), out, out.strides[1], kNativeOf<T>);
      const T* first = x.read(0, piece, in_buffer);
      T mean = 0;  // also upstream's value for an empty row
      if (kCentered && n > 0) {
        double sum = sum_of(first, piece);
        for (int64_t i = piece; i < n; i += piece) {
          const int64_t count = length(i);
          sum += sum_of(x.read(i, count, in_buffer), count);
        }
        mean = static_cast<T>(sum / static_cast<double>(n));
      }
      double squares = 0;
      for (int64_t i = 0; i < n; i += piece) {
        const int64_t count = length(i);
        squares += sum_of_squares(piece == n ? first : x.read(i, count, in_buffer), mean, count);
      }
      const T rstd = static_cast<T>(1 / std::sqrt(squares / static_cast<double>(n) + eps));
      for (int64_t i = 0; i < n; i += piece) {
        const int64_t count = length(i);
        const T* px = piece == n ? first : x.read(i, count, in_buffer);
        if (piece < n) w = weight.read(i, count, weight_buffer), b = bias.read(i, count, bias_buffer);
        T* py = y.direct ? static_cast<T*>(const_cast<void*>(y.base)) + i : in_buffer;
        normalize(px, mean, rstd, w, b, count, py);
        if (!y.direct)
          store_run(py, count, at(const_cast<void*>(y.base), out.dtype, i * y.stride), out.dtype, y.stride);
      }
      store_scalar(Operand::kMean, r, mean);
      store_scalar(Operand::kRstd, r, rstd);
    }
  }

  int64_t length(int64_t i) const { return n - i < piece ? n - i : piece; }

  Run<T> optional(int i) const {
    if (i >= l.desc.n_operands || l.data[i] == nullptr) return {};
    return Run<T>(l.data[i], l.operand(i), l.operand(i).strides[0], l.desc.compute_dtype);
  }

  void store_scalar(int i, int64_t r, T value) const {
    if (l.data[i] == nullptr) return;
    const atalla_operand& o = l.operand(i);
    store_run(&value, 1, at(l.data[i], o.dtype, r * o.strides[0]), o.dtype, 1);
  }

  void run(int64_t m) const {
    parallel_for(m, grain_for(n), [&](int64_t begin, int64_t end) { rows(begin, end); });
  }
};

template <class T, bool kCentered>
void run_typed(const Launch& l, int64_t m, int64_t n) {
  // Pieces only where an operand needs a buffer.
  bool direct = l.desc.compute_dtype == kNativeOf<T>;
  for (const int i : {Operand::kOut, Operand::kInput, Operand::kWeight, Operand::kBias}) {
    if (i >= l.desc.n_operands || l.data[i] == nullptr) continue;
    const atalla_operand& o = l.operand(i);
    direct = direct && o.dtype == kNativeOf<T> && o.strides[o.ndim - 1] == 1;
  }
  const double eps = LayerNormParameters::read(l.desc).eps;
  LayerNorm<T, kCentered>{l, n, direct || n < kBufferElements ? n : kBufferElements, eps}.run(m);
}

template <bool kCentered>
atalla_status run(const Launch& l) {
  const atalla_operand& in = l.operand(Operand::kInput);
  const int64_t m = in.sizes[0], n = in.sizes[1];
  if (!kCentered && l.operand(Operand::kMean).addr != 0) {
    return fail(l, ATALLA_ERR_ARGUMENT, "mean is given, expected none");
  }
  if (m == 0) return ATALLA_OK;
  if (l.desc.compute_dtype == ATALLA_F64) run_typed<double, kCentered>(l, m, n);
  else run_typed<float, kCentered>(l, m, n);
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily norm_kernels = {
    {"layer_norm", kFloatDtypes, run<true>},
    {"rms_norm", kFloatDtypes, run<false>},
};

}  // namespace atalla::sim::ATALLA_ISA
