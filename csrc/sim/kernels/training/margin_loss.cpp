// SPDX-License-Identifier: BSD-3-Clause
//
// multi_margin_loss and multilabel_margin_loss: hinges of the distances between the scores of a row.
//
// Instruction sets: up to avx2

#include "sim/kernels/norm/channel_norm.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Margin = MultiMarginLossOperands;
using Labels = MultilabelMarginLossOperands;

template <class T>
T value_at(const Launch& l, int operand, int64_t offset) {
  return element_of<T>(l.data[operand], l.operand(operand).dtype, offset);
}

static_assert(Margin::kLoss == Labels::kLoss);

// Losses of all rows: each on its own, or one value, their sum or mean.
template <class RowLoss>
atalla_status reduce_rows(const Launch& l, int64_t rows, int64_t row_work, LossReduction reduction,
                          RowLoss&& row_loss) {
  const atalla_operand& out = l.operand(Margin::kLoss);
  ScratchArray<double> losses(rows);
  if (!losses)
    return set_error(ATALLA_ERR_SYSTEM, "margin loss: no memory for the losses of %lld rows",
                     static_cast<long long>(rows));
  parallel_for(rows, grain_for(row_work), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) losses[r] = row_loss(r);
  });
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) {
    sum += losses[r];
    if (reduction != LossReduction::kNone) continue;
    store_run(&losses[r], 1, at(l.data[Margin::kLoss], out.dtype, r * out.strides[0]), out.dtype, 1);
  }
  if (reduction == LossReduction::kMean) sum /= static_cast<double>(rows);
  if (reduction != LossReduction::kNone) store_run(&sum, 1, l.data[Margin::kLoss], out.dtype, 1);
  return ATALLA_OK;
}

template <class T>
atalla_status multi_margin(const Launch& l) {
  const atalla_operand& x = l.operand(Margin::kInput);
  const MultiMarginLossParameters p = MultiMarginLossParameters::read(l.desc);
  const T margin = static_cast<T>(p.margin);
  const bool squared = p.p == 2;
  const LossReduction reduction = p.reduction;
  const int64_t d = x.sizes[1];
  return reduce_rows(l, x.sizes[0], d, reduction, [&](int64_t r) {
    const int64_t t = *l.at<const int64_t>(Margin::kTarget, r);
    const T own = value_at<T>(l, Margin::kInput, r * x.strides[0] + t * x.strides[1]);
    double sum = 0;
    for (int64_t j = 0; j < d; ++j) {
      const T z = margin - own + value_at<T>(l, Margin::kInput, r * x.strides[0] + j * x.strides[1]);
      if (j != t && z > 0) sum += static_cast<double>(squared ? z * z : z);
    }
    const double weight =
        l.data[Margin::kWeight] ? value_at<double>(l, Margin::kWeight, t * l.operand(Margin::kWeight).strides[0]) : 1;
    return sum * weight / static_cast<double>(d);
  });
}

atalla_status run_multi_margin(const Launch& l) {
  const atalla_operand& x = l.operand(Margin::kInput);
  for (int64_t r = 0; r < x.sizes[0]; ++r) {
    const int64_t t = l.ptr<const int64_t>(Margin::kTarget)[r * l.operand(Margin::kTarget).strides[0]];
    if (t < 0 || t >= x.sizes[1]) return set_error(ATALLA_ERR_FAULT_KERNEL, "target out of range");
  }
  return l.desc.compute_dtype == ATALLA_F64 ? multi_margin<double>(l) : multi_margin<float>(l);
}

template <class T>
atalla_status multilabel(const Launch& l) {
  const atalla_operand &x = l.operand(Labels::kInput), &target = l.operand(Labels::kTargets),
                       &is_target = l.operand(Labels::kIsTarget);
  const int64_t d = x.sizes[1];
  const auto reduction = MultilabelMarginLossParameters::read(l.desc).reduction;
  const auto flag_place = [&](int64_t r, int64_t j) {
    return at(l.data[Labels::kIsTarget], is_target.dtype, r * is_target.strides[0] + j * is_target.strides[1]);
  };
  return reduce_rows(l, x.sizes[0], d * d, reduction, [&](int64_t r) {
    const int64_t* labels = l.at<const int64_t>(Labels::kTargets, r);
    const double zero = 0, one = 1;
    int64_t count = 0;
    for (int64_t j = 0; j < d; ++j) store_run(&zero, 1, flag_place(r, j), is_target.dtype, 1);
    for (; count < d && labels[count * target.strides[1]] >= 0; ++count) {
      store_run(&one, 1, flag_place(r, labels[count * target.strides[1]]), is_target.dtype, 1);
    }
    double sum = 0;
    for (int64_t j = 0; j < d; ++j) {
      if (element_of<double>(flag_place(r, j), is_target.dtype, 0) != 0) continue;
      const T other = value_at<T>(l, Labels::kInput, r * x.strides[0] + j * x.strides[1]);
      for (int64_t k = 0; k < count; ++k) {
        const T own = value_at<T>(l, Labels::kInput, r * x.strides[0] + labels[k * target.strides[1]] * x.strides[1]);
        const T z = 1 - own + other;
        if (z > 0) sum += static_cast<double>(z);
      }
    }
    return sum / static_cast<double>(d);
  });
}

atalla_status run_multilabel(const Launch& l) {
  const atalla_operand& t = l.operand(Labels::kTargets);
  for (int64_t r = 0; r < t.sizes[0]; ++r) {
    for (int64_t j = 0; j < t.sizes[1]; ++j) {
      const int64_t label = *l.at<const int64_t>(Labels::kTargets, r, j);
      if (label < -1 || label >= t.sizes[1])
        return set_error(ATALLA_ERR_FAULT_KERNEL, "argument #2 'target' is out of range");
    }
  }
  return l.desc.compute_dtype == ATALLA_F64 ? multilabel<double>(l) : multilabel<float>(l);
}

}  // namespace

extern constexpr KernelFamily margin_loss_kernels = {
    {"multi_margin_loss", kWideFloatDtypes, run_multi_margin},
    {"multilabel_margin_loss", kWideFloatDtypes, run_multilabel},
};

}  // namespace atalla::sim::ATALLA_ISA
