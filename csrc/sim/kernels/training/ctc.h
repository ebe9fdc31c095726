// SPDX-License-Identifier: BSD-3-Clause
//
// What both directions of ctc_loss share: the operands that they have in common, and sums of logarithms.
#pragma once

#include <cmath>

#include "sim/kernels/norm/channel_norm.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// ctc_loss_backward has the same inputs at the same places, and its gradient at that of the loss.
using Ctc = CtcLossOperands;

struct CtcShape {
  const Launch& l;
  int64_t time, batch, classes, states, blank;
  bool joined;  // targets of all samples one after another

  explicit CtcShape(const Launch& launch) : l(launch) {
    const atalla_operand &x = l.operand(Ctc::kLogProbabilities), &alpha = l.operand(Ctc::kAlpha);
    time = x.sizes[0], batch = x.sizes[1], classes = x.sizes[2], states = alpha.sizes[2];
    blank = CtcLossParameters::read(l.desc).blank;
    joined = l.operand(Ctc::kTargets).ndim == 1;
  }
  int64_t length(int operand, int64_t b) const {
    return l.ptr<const int64_t>(operand)[b * l.operand(operand).strides[0]];
  }
  // Where the labels of sample b begin.
  int64_t begin(int64_t b) const {
    if (!joined) return b * l.operand(Ctc::kTargets).strides[0];
    int64_t sum = 0;
    for (int64_t i = 0; i < b; ++i) sum += length(Ctc::kTargetLengths, i);
    return sum * l.operand(Ctc::kTargets).strides[0];
  }
  int64_t label(int64_t begin, int64_t s) const {
    const atalla_operand& t = l.operand(Ctc::kTargets);
    return index_at(l, Ctc::kTargets, begin + s / 2 * t.strides[t.ndim - 1]);
  }
};

template <class T>
T log_sum(T a, T b, T c) {
  T most = a > b ? a : b;
  most = c > most ? c : most;
  if (most == -INFINITY) most = 0;  // the difference of two infinities is none
  return std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most)) + most;
}

// Lengths within the operands, labels and the blank within the classes.
inline atalla_status check_labels(const CtcShape& shape) {
  const Launch& l = shape.l;
  const atalla_operand& targets = l.operand(Ctc::kTargets);
  if (targets.ndim < 1 || targets.ndim > 2) {
    return fail(l, ATALLA_ERR_ARGUMENT, "targets have {} dimensions, expected 1 or 2", targets.ndim);
  }
  if (shape.batch > 0 && (shape.blank < 0 || shape.blank >= shape.classes)) {
    return fail(l, ATALLA_ERR_ARGUMENT, "the blank {} is none of {} classes", shape.blank, shape.classes);
  }
  if (!shape.joined && targets.sizes[0] != shape.batch) {
    return fail(l, ATALLA_ERR_ARGUMENT, "targets of {} samples, expected {}", targets.sizes[0], shape.batch);
  }
  int64_t total = 0;
  for (int64_t b = 0; b < shape.batch; ++b) {
    const int64_t steps = shape.length(Ctc::kInputLengths, b), target = shape.length(Ctc::kTargetLengths, b);
    if (steps < 0 || steps > shape.time || target < 0 || 2 * target + 1 > shape.states ||
        (!shape.joined && target > targets.sizes[1])) {
      return fail(l, ATALLA_ERR_ARGUMENT, "sample {} has lengths {} and {}, at most {} and {}", b, steps, target,
                  shape.time, shape.states / 2);
    }
    total += target;
    if (shape.joined && total > targets.sizes[0]) return fail(l, ATALLA_ERR_ARGUMENT, "too few labels");
    for (int64_t u = 0; u < target; ++u) {
      const int64_t label = shape.label(shape.begin(b), 2 * u + 1);
      if (label >= 0 && label < shape.classes) continue;
      return fail(l, ATALLA_ERR_FAULT_INDEX, "label {} is out of bounds for {} classes", label, shape.classes);
    }
  }
  return ATALLA_OK;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
