// SPDX-License-Identifier: BSD-3-Clause
//
// Negative log likelihood of class indices, and its gradient. Targets are checked before anything is written. Sums are
// taken in double over fixed parts, and combined in order.
//
// Instruction sets: up to avx2
#include "sim/kernels/norm/channel_norm.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Forward = NllLossOperands;
using Backward = NllLossBackwardOperands;
constexpr int64_t kPart = 4096;  // samples that one partial sum covers

// The samples: target [n, s] over classes [n, c, s].
struct Samples {
  const Launch& l;
  const atalla_operand& target;
  const void* data;
  int64_t n, classes, s, ignored;

  Samples(const Launch& launch, int target_index, const atalla_operand& scores, int64_t ignore_index)
      : l(launch), target(l.operand(target_index)), data(l.data[target_index]) {
    n = scores.sizes[0], classes = scores.sizes[1], s = scores.sizes[2];
    ignored = ignore_index;
  }
  int64_t count() const { return n * s; }
  int64_t at_index(int64_t i) const {
    const int64_t o = i / s * target.strides[0] + i % s * target.strides[1];
    if (target.dtype == ATALLA_U8) return static_cast<const uint8_t*>(data)[o];
    if (target.dtype == ATALLA_I32) return static_cast<const int32_t*>(data)[o];
    return static_cast<const int64_t*>(data)[o];
  }
  atalla_status check() const {
    for (int64_t i = 0; i < count(); ++i) {
      const int64_t t = at_index(i);
      if (t == ignored || (t >= 0 && t < classes)) continue;
      return set_error(ATALLA_ERR_FAULT_INDEX, "Target %lld is out of bounds.", static_cast<long long>(t));
    }
    return ATALLA_OK;
  }
};

int64_t place(const atalla_operand& o, int64_t i, int64_t s, int64_t t) {
  return i / s * o.strides[0] + t * o.strides[1] + i % s * o.strides[2];
}

template <class T>
T weight_of(const Launch& l, int operand, int64_t t) {
  if (l.data[operand] == nullptr) return T(1);
  return element_of<T>(l.data[operand], l.operand(operand).dtype, t * l.operand(operand).strides[0]);
}

void store_one(const Launch& l, int operand, int64_t offset, double value) {
  if (l.data[operand] == nullptr) return;
  const atalla_operand& o = l.operand(operand);
  store_run(&value, 1, at(l.data[operand], o.dtype, offset), o.dtype, 1);
}

template <class T>
atalla_status forward(const Launch& l, const Samples& samples, LossReduction reduction) {
  const atalla_operand& in = l.operand(Forward::kInput);
  const int64_t count = samples.count();
  auto loss = [&](int64_t i, int64_t t, T weight) {
    return -element_of<T>(l.data[Forward::kInput], in.dtype, place(in, i, samples.s, t)) * weight;
  };
  if (reduction == LossReduction::kNone) {
    const atalla_operand& out = l.operand(Forward::kLoss);
    parallel_for(count, kPart, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t t = samples.at_index(i);
        const double value =
            t == samples.ignored ? 0 : static_cast<double>(loss(i, t, weight_of<T>(l, Forward::kWeight, t)));
        store_one(l, Forward::kLoss, i / samples.s * out.strides[0] + i % samples.s * out.strides[1], value);
      }
    });
    store_one(l, Forward::kTotalWeight, 0, 0);
    return ATALLA_OK;
  }
  const int64_t parts = ceil_div(count, kPart);
  ScratchArray<double> losses(parts), weights(parts);
  if (!losses || !weights) return fail(l, ATALLA_ERR_SYSTEM, "no memory for partial sums");
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      losses[p] = 0, weights[p] = 0;
      for (int64_t i = p * kPart; i < min_of(count, (p + 1) * kPart); ++i) {
        const int64_t t = samples.at_index(i);
        if (t == samples.ignored) continue;
        const T weight = weight_of<T>(l, Forward::kWeight, t);
        losses[p] += static_cast<double>(loss(i, t, weight));
        weights[p] += static_cast<double>(weight);
      }
    }
  });
  double sum = 0, total = 0;
  for (int64_t p = 0; p < parts; ++p) sum += losses[p], total += weights[p];
  store_one(l, Forward::kLoss, 0, reduction == LossReduction::kMean ? sum / total : sum);
  store_one(l, Forward::kTotalWeight, 0, total);
  return ATALLA_OK;
}

template <class T>
atalla_status backward(const Launch& l, const Samples& samples, LossReduction reduction) {
  const atalla_operand &out = l.operand(Backward::kGradInput), &grad = l.operand(Backward::kGradOutput);
  T divisor = 1;
  if (reduction == LossReduction::kMean)
    divisor = element_of<T>(l.data[Backward::kTotalWeight], l.operand(Backward::kTotalWeight).dtype, 0);
  parallel_for(samples.count(), kPart, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t t = samples.at_index(i);
      if (t == samples.ignored) continue;
      const T g = element_of<T>(l.data[Backward::kGradOutput], grad.dtype,
                                i / samples.s * grad.strides[0] + i % samples.s * grad.strides[1]);
      store_one(l, Backward::kGradInput, place(out, i, samples.s, t),
                static_cast<double>(-(g / divisor) * weight_of<T>(l, Backward::kWeight, t)));
    }
  });
  return ATALLA_OK;
}

atalla_status run_forward(const Launch& l) {
  const NllLossParameters p = NllLossParameters::read(l.desc);
  const LossReduction reduction = p.reduction;
  const Samples samples(l, Forward::kTarget, l.operand(Forward::kInput), p.ignore_index);
  ATALLA_CHECK(samples.check());
  return l.desc.compute_dtype == ATALLA_F64 ? forward<double>(l, samples, reduction)
                                            : forward<float>(l, samples, reduction);
}

atalla_status run_backward(const Launch& l) {
  const NllLossBackwardParameters p = NllLossBackwardParameters::read(l.desc);
  const LossReduction reduction = p.reduction;
  if (reduction == LossReduction::kMean) {
    if (l.data[Backward::kTotalWeight] == nullptr) return fail(l, ATALLA_ERR_ARGUMENT, "no total weight");
  }
  const Samples samples(l, Backward::kTarget, l.operand(Backward::kGradInput), p.ignore_index);
  ATALLA_CHECK(samples.check());
  return l.desc.compute_dtype == ATALLA_F64 ? backward<double>(l, samples, reduction)
                                            : backward<float>(l, samples, reduction);
}

}  // namespace

extern constexpr KernelFamily nll_loss_kernels = {
    {"nll_loss", kFloatDtypes, run_forward},
    {"nll_loss_backward", kFloatDtypes, run_backward},
};

}  // namespace atalla::sim::ATALLA_ISA
