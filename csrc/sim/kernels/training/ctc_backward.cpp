// SPDX-License-Identifier: BSD-3-Clause
//
// ctc_loss_backward: the backward recursion, of which two steps are kept, joined with the forward one of ctc_loss. A
// sample is a task of its own.
//
// Instruction sets: up to avx2
#include "sim/kernels/training/ctc.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Backward = CtcLossBackwardOperands;
static_assert(Backward::kAlpha == Ctc::kAlpha && Backward::kLogProbabilities == Ctc::kLogProbabilities &&
              Backward::kTargets == Ctc::kTargets && Backward::kTargetLengths == Ctc::kTargetLengths);

template <class T>
struct Sample {
  const CtcShape& shape;
  int64_t b, steps, target, used, begin;

  Sample(const CtcShape& s, int64_t sample) : shape(s), b(sample) {
    steps = s.length(Backward::kInputLengths, b), target = s.length(Backward::kTargetLengths, b);
    used = 2 * target + 1, begin = s.begin(b);
  }
  int64_t symbol(int64_t s) const { return s % 2 == 0 ? shape.blank : shape.label(begin, s); }
  T log_probability(int64_t t, int64_t c) const { return *shape.l.at<const T>(Backward::kLogProbabilities, t, b, c); }
  T& gradient(int64_t t, int64_t c) const { return *shape.l.at<T>(Backward::kGradInput, t, b, c); }
  T one(int operand) const {
    const atalla_operand& o = shape.l.operand(operand);
    return element_of<T>(shape.l.data[operand], o.dtype, b * o.strides[0]);
  }

  // `beta`: two rows of states; `joint`: a value a class.
  void run(bool zero_infinity, T* beta, T* joint) const {
    const T none = -INFINITY, loss = one(Backward::kLoss), scale = one(Backward::kGradOutput);
    const bool skipped = zero_infinity && loss == INFINITY;
    const atalla_operand& a = shape.l.operand(Backward::kAlpha);
    for (int64_t t = shape.time - 1; t >= 0; --t) {
      if (t >= steps || skipped) {
        for (int64_t c = 0; c < shape.classes; ++c) gradient(t, c) = 0;
        continue;
      }
      const T* alpha = shape.l.ptr<const T>(Backward::kAlpha) + b * a.strides[0] + t * shape.states;
      T *now = beta + t % 2 * shape.states, *after = beta + (t + 1) % 2 * shape.states;
      for (int64_t c = 0; c < shape.classes; ++c) joint[c] = none;
      for (int64_t s = used - 1; s >= 0; --s) {
        const int64_t c = symbol(s);
        if (t == steps - 1) {
          now[s] = s >= used - 2 ? log_probability(t, c) : none;
        } else {
          const bool skips = s + 2 < used && symbol(s + 2) != c;
          now[s] = log_sum(after[s], s + 1 < used ? after[s + 1] : none, skips ? after[s + 2] : none) +
                   log_probability(t, c);
        }
        joint[c] = log_sum(joint[c], alpha[s] + now[s], none);
      }
      for (int64_t c = 0; c < shape.classes; ++c) {
        const T p = log_probability(t, c);
        gradient(t, c) = (std::exp(p) - std::exp(joint[c] + loss - p)) * scale;
      }
    }
  }
};

template <class T>
atalla_status run_typed(const CtcShape& shape) {
  const bool zero_infinity = CtcLossBackwardParameters::read(shape.l.desc).zero_infinity;
  const bool ok = parallel_try(shape.batch, grain_for(shape.time * shape.states * 16), [&](int64_t begin, int64_t end) {
    ScratchArray<T> beta(2 * shape.states), joint(shape.classes);
    if (!beta || !joint) return false;
    for (int64_t b = begin; b < end; ++b) Sample<T>(shape, b).run(zero_infinity, beta.get(), joint.get());
    return true;
  });
  return ok ? ATALLA_OK : fail(shape.l, ATALLA_ERR_SYSTEM, "no memory for two rows of states");
}

atalla_status run(const Launch& l) {
  const CtcShape shape(l);
  ATALLA_CHECK(check_labels(shape));
  return l.desc.compute_dtype == ATALLA_F64 ? run_typed<double>(shape) : run_typed<float>(shape);
}

}  // namespace

extern constexpr KernelFamily ctc_backward_kernels = {{"ctc_loss_backward", kWideFloatDtypes, run}};

}  // namespace atalla::sim::ATALLA_ISA
