// SPDX-License-Identifier: BSD-3-Clause
//
// ctc_loss: the forward recursion of A. Graves et al., "Connectionist temporal classification", ICML 2006, in
// logarithms. A sample is a task of its own. State s of a target of length u is a blank where s is even, label (s - 1)
// / 2 where it is odd; there are 2 u + 1.
#include <cmath>

#include "channel_norm.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr uint64_t kWideFloats = dtype_bit(ATALLA_F32) | dtype_bit(ATALLA_F64);
enum Operand { kNll, kAlpha, kLogProbs, kTargets, kInputLengths, kTargetLengths };

struct Shape {
  const Launch& l;
  int64_t time, batch, classes, states, blank;
  bool joined;  // targets of all samples one after another

  explicit Shape(const Launch& launch) : l(launch) {
    const atalla_operand &x = l.operand(kLogProbs), &alpha = l.operand(kAlpha);
    time = x.sizes[0], batch = x.sizes[1], classes = x.sizes[2], states = alpha.sizes[2];
    blank = l.desc.iparams[0];
    joined = l.operand(kTargets).ndim == 1;
  }
  int64_t length(int operand, int64_t b) const {
    return l.ptr<const int64_t>(operand)[b * l.operand(operand).strides[0]];
  }
  // Where the labels of sample b begin.
  int64_t begin(int64_t b) const {
    if (!joined) return b * l.operand(kTargets).strides[0];
    int64_t sum = 0;
    for (int64_t i = 0; i < b; ++i) sum += length(kTargetLengths, i);
    return sum * l.operand(kTargets).strides[0];
  }
  int64_t label(int64_t begin, int64_t s) const {
    const atalla_operand& t = l.operand(kTargets);
    const int64_t o = begin + s / 2 * t.strides[t.ndim - 1];
    return t.dtype == ATALLA_I32 ? l.ptr<const int32_t>(kTargets)[o] : l.ptr<const int64_t>(kTargets)[o];
  }
};

template <class T>
T log_sum(T a, T b, T c) {
  T most = a > b ? a : b;
  most = c > most ? c : most;
  if (most == -INFINITY) most = 0;  // the difference of two infinities is none
  return std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most)) + most;
}

template <class T>
void run_sample(const Shape& shape, int64_t b) {
  const Launch& l = shape.l;
  const atalla_operand &x = l.operand(kLogProbs), &alpha_operand = l.operand(kAlpha), &out = l.operand(kNll);
  const int64_t steps = shape.length(kInputLengths, b), target = shape.length(kTargetLengths, b);
  const int64_t used = 2 * target + 1, begin = shape.begin(b);
  const T none = -INFINITY;
  const auto symbol = [&](int64_t s) { return s % 2 == 0 ? shape.blank : shape.label(begin, s); };
  const auto probability = [&](int64_t t, int64_t s) {
    return element_of<T>(l.data[kLogProbs], x.dtype, t * x.strides[0] + b * x.strides[1] + symbol(s) * x.strides[2]);
  };
  T* alpha = l.ptr<T>(kAlpha) + b * alpha_operand.strides[0];  // rows of `states`, contiguous
  for (int64_t i = 0; i < shape.time * shape.states; ++i) alpha[i] = none;
  double likelihood = 0;
  if (steps == 0) {
    likelihood = target == 0 ? 0 : -INFINITY;
  } else {
    alpha[0] = probability(0, 0);
    if (target > 0) alpha[1] = probability(0, 1);
    for (int64_t t = 1; t < steps; ++t) {
      const T* before = alpha + (t - 1) * shape.states;
      T* now = alpha + t * shape.states;
      for (int64_t s = 0; s < used; ++s) {
        const bool skips = s > 1 && symbol(s) != symbol(s - 2);
        now[s] = log_sum(before[s], s > 0 ? before[s - 1] : none, skips ? before[s - 2] : none) + probability(t, s);
      }
    }
    const T* last = alpha + (steps - 1) * shape.states;
    likelihood = static_cast<double>(target == 0 ? last[0] : log_sum(last[used - 1], last[used - 2], none));
  }
  const double loss = -likelihood;
  store_run(&loss, 1, at(l.data[kNll], out.dtype, b * out.strides[0]), out.dtype, 1);
}

atalla_status check(const Launch& l) {
  const char* name = "ctc_loss";
  ATALLA_CHECK(check_operands(name, l.desc, 2, 6, 6));
  ATALLA_CHECK(check_dtype(name, "computing", l.desc.compute_dtype, kWideFloats));
  for (const int i : {kNll, kAlpha, kLogProbs}) {
    if (l.operand(i).dtype == l.desc.compute_dtype) continue;
    return set_error(ATALLA_ERR_UNSUPPORTED, "%s: operand %d is %s, expected %s", name, i,
                     dtype_name(l.operand(i).dtype), dtype_name(l.desc.compute_dtype));
  }
  const atalla_operand &x = l.operand(kLogProbs), &alpha = l.operand(kAlpha), &targets = l.operand(kTargets);
  ATALLA_CHECK(check_dtype(name, "a label", targets.dtype, dtype_bit(ATALLA_I32) | dtype_bit(ATALLA_I64)));
  if (x.ndim != 3 || alpha.ndim != 3 || alpha.sizes[0] != x.sizes[1] || alpha.sizes[1] != x.sizes[0] ||
      alpha.strides[2] != 1 || alpha.strides[1] != alpha.sizes[2] || targets.ndim < 1 || targets.ndim > 2) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: expected log_probs [t, n, c], alpha [n, t, s] with contiguous rows",
                     name);
  }
  for (const int i : {kInputLengths, kTargetLengths}) {
    ATALLA_CHECK(check_dtype(name, "a length", l.operand(i).dtype, dtype_bit(ATALLA_I64)));
    if (l.operand(i).ndim == 1 && l.operand(i).sizes[0] == x.sizes[1]) continue;
    return set_error(ATALLA_ERR_ARGUMENT, "%s: expected a length for each of %lld samples", name,
                     static_cast<long long>(x.sizes[1]));
  }
  for (int i = 0; i < l.desc.n_operands; ++i) ATALLA_CHECK(check_present(name, l, i));
  const Shape shape(l);
  int64_t total = 0;
  for (int64_t b = 0; b < shape.batch; ++b) {
    const int64_t steps = shape.length(kInputLengths, b), target = shape.length(kTargetLengths, b);
    if (steps < 0 || steps > shape.time || target < 0 || 2 * target + 1 > shape.states ||
        (!shape.joined && target > targets.sizes[1])) {
      return set_error(ATALLA_ERR_ARGUMENT, "%s: sample %lld has lengths %lld and %lld, at most %lld and %lld", name,
                       static_cast<long long>(b), static_cast<long long>(steps), static_cast<long long>(target),
                       static_cast<long long>(shape.time), static_cast<long long>(shape.states / 2));
    }
    total += target;
    if (shape.joined && total > targets.sizes[0]) return set_error(ATALLA_ERR_ARGUMENT, "%s: too few labels", name);
    for (int64_t u = 0; u < target; ++u) {
      const int64_t label = shape.label(shape.begin(b), 2 * u + 1);
      if (label >= 0 && label < shape.classes) continue;
      return set_error(ATALLA_ERR_FAULT_INDEX, "%s: label %lld is out of bounds for %lld classes", name,
                       static_cast<long long>(label), static_cast<long long>(shape.classes));
    }
  }
  return ATALLA_OK;
}

atalla_status run(const Launch& l) {
  ATALLA_CHECK(check(l));
  const Shape shape(l);
  parallel_for(shape.batch, grain_for(shape.time * shape.states * 16), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      if (l.desc.compute_dtype == ATALLA_F64) run_sample<double>(shape, b);
      else run_sample<float>(shape, b);
    }
  });
  return ATALLA_OK;
}

// A state of a step: three differences and exponentials, two maxima, two sums, a logarithm and two additions.
void cost(const atalla_launch_desc& d, Cost& cost) {
  for (int i = 0; i < d.n_operands; ++i) {
    (i < d.n_outputs ? cost.bytes_written : cost.bytes_read) += distinct_bytes(d.operands[i]);
  }
  const uint64_t v = vectors(element_count(d.operands[kAlpha]));
  cost.vector_ops += v * (3 + 6 + 2 + 16 + 2);
  cost.exp_ops += 3 * v;
}

constexpr Kernel kKernels[] = {{"ctc_loss", 1, kWideFloats, run, cost}};

}  // namespace

KernelTable ctc_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
