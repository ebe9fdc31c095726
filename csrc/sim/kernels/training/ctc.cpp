// SPDX-License-Identifier: BSD-3-Clause
//
// ctc_loss: the forward recursion of A. Graves et al., "Connectionist temporal classification", ICML 2006, in
// logarithms. A sample is a task of its own. State s of a target of length u is a blank where s is even, label (s - 1)
// / 2 where it is odd; there are 2 u + 1.
//
// Instruction sets: up to avx2
#include "sim/kernels/training/ctc.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <class T>
void run_sample(const CtcShape& shape, int64_t b) {
  const Launch& l = shape.l;
  const atalla_operand &x = l.operand(Ctc::kLogProbabilities), &out = l.operand(Ctc::kLoss);
  const int64_t steps = shape.length(Ctc::kInputLengths, b), target = shape.length(Ctc::kTargetLengths, b);
  const int64_t used = 2 * target + 1, begin = shape.begin(b);
  const T none = -INFINITY;
  const auto symbol = [&](int64_t s) { return s % 2 == 0 ? shape.blank : shape.label(begin, s); };
  const auto probability = [&](int64_t t, int64_t s) {
    return element_of<T>(l.data[Ctc::kLogProbabilities], x.dtype,
                         t * x.strides[0] + b * x.strides[1] + symbol(s) * x.strides[2]);
  };
  T* alpha = l.at<T>(Ctc::kAlpha, b);  // rows of `states`, contiguous
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
  store_run(&loss, 1, at(l.data[Ctc::kLoss], out.dtype, b * out.strides[0]), out.dtype, 1);
}

atalla_status run(const Launch& l) {
  const CtcShape shape(l);
  ATALLA_CHECK(check_labels(shape));
  parallel_for(shape.batch, grain_for(shape.time * shape.states * 16), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      if (l.desc.compute_dtype == ATALLA_F64) run_sample<double>(shape, b);
      else run_sample<float>(shape, b);
    }
  });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily ctc_kernels = {{"ctc_loss", kWideFloatDtypes, run}};

}  // namespace atalla::sim::ATALLA_ISA
