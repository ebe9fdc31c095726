// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of multi_margin_loss and multilabel_margin_loss: every pair whose hinge is open pulls its two scores apart.
//
// Instruction sets: up to avx2

#include "sim/kernels/norm/channel_norm.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// The gradient of the scores, that of the losses [n], the scores, their targets, and the classes' weights or is_target.
// The two kernels differ in the last operand: a weight for each class, and a flag for each score.
using Operand = MultiMarginLossBackwardOperands;
constexpr int kWeightOrFlags = Operand::kWeight;
static_assert(kWeightOrFlags == MultilabelMarginLossBackwardOperands::kIsTarget);

// Rows of [n, d] of the compute dtype, contiguous.
template <class T>
struct Row {
  const T* x;
  T* gradient;
  const int64_t* target;
  double factor;  // gradient of the row's loss, over d and, for a mean, over n
};

template <class T, class Rule>
void each_row(const Launch& l, LossReduction reduction, Rule&& rule) {
  const atalla_operand &in = l.operand(Operand::kInput), &loss = l.operand(Operand::kGradOutput);
  const int64_t n = in.sizes[0], d = in.sizes[1], per_row = element_count(l.operand(Operand::kTarget)) / n;
  const double share = 1.0 / static_cast<double>(reduction == LossReduction::kMean ? n * d : d);
  parallel_for(n, grain_for(d), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      Row<T> row{l.ptr<const T>(Operand::kInput) + r * d, l.ptr<T>(Operand::kGradInput) + r * d,
                 l.ptr<const int64_t>(Operand::kTarget) + r * per_row,
                 share * element_of<double>(l.data[Operand::kGradOutput], loss.dtype, r * loss.strides[0])};
      for (int64_t j = 0; j < d; ++j) row.gradient[j] = 0;
      rule(r, d, row);
    }
  });
}

template <class T>
void multi_margin(const Launch& l) {
  const MultiMarginLossBackwardParameters p = MultiMarginLossBackwardParameters::read(l.desc);
  const T margin = static_cast<T>(p.margin);
  const bool squared = p.p == 2;
  each_row<T>(l, p.reduction, [&](int64_t, int64_t d, const Row<T>& row) {
    const int64_t t = row.target[0];
    const T factor = static_cast<T>(row.factor) * (l.data[kWeightOrFlags] ? l.ptr<const T>(kWeightOrFlags)[t] : T(1));
    T own = 0;
    for (int64_t j = 0; j < d; ++j) {
      const T z = margin - row.x[t] + row.x[j];
      const T g = j != t && z > 0 ? (squared ? 2 * z : T(1)) * factor : T(0);
      row.gradient[j] = g;
      own -= g;
    }
    row.gradient[t] = own;
  });
}

template <class T>
void multilabel(const Launch& l) {
  const auto reduction = MultilabelMarginLossBackwardParameters::read(l.desc).reduction;
  each_row<T>(l, reduction, [&](int64_t r, int64_t d, const Row<T>& row) {
    const T* is_target = l.ptr<const T>(kWeightOrFlags) + r * d;
    const T factor = static_cast<T>(row.factor);
    for (int64_t k = 0; k < d && row.target[k] >= 0; ++k) {
      const int64_t t = row.target[k];
      for (int64_t j = 0; j < d; ++j) {
        if (is_target[j] != 0 || 1 - row.x[t] + row.x[j] <= 0) continue;
        row.gradient[t] -= factor;
        row.gradient[j] += factor;
      }
    }
  });
}

atalla_status check_targets(const Launch& l, bool labels) {
  const atalla_operand& in = l.operand(Operand::kInput);
  const int64_t targets = labels ? in.sizes[0] * in.sizes[1] : in.sizes[0];
  for (int64_t i = 0; i < targets; ++i) {
    const int64_t t = l.ptr<const int64_t>(Operand::kTarget)[i];
    if (t < (labels ? -1 : 0) || t >= in.sizes[1]) {
      return set_error(ATALLA_ERR_FAULT_KERNEL,
                       labels ? "argument #3 'target' is out of range" : "target out of range");
    }
  }
  return ATALLA_OK;
}

template <bool kLabels>
atalla_status run(const Launch& l) {
  ATALLA_CHECK(check_targets(l, kLabels));
  if (element_count(l.operand(Operand::kInput)) == 0) return ATALLA_OK;
  const bool wide = l.desc.compute_dtype == ATALLA_F64;
  if constexpr (kLabels) wide ? multilabel<double>(l) : multilabel<float>(l);
  else wide ? multi_margin<double>(l) : multi_margin<float>(l);
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily margin_loss_backward_kernels = {
    {"multi_margin_loss_backward", kWideFloatDtypes, run<false>},
    {"multilabel_margin_loss_backward", kWideFloatDtypes, run<true>},
};

}  // namespace atalla::sim::ATALLA_ISA
