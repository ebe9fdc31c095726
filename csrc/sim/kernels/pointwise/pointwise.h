// SPDX-License-Identifier: BSD-3-Clause
//
// Pointwise kernels: one formula an op, compiled once for each dtype in which it computes (the loop types), over
// contiguous arrays; the engine brings operands of any dtype and layout into that form. docs/concepts/pointwise.md.
#pragma once

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {

// The formula over n elements. The arrays have the loop type, or the dtype that the op gives for an operand (BOOL is
// stored as a byte); an output may be one of the inputs. Unless the op is `exact` for the dtype, n is a multiple of
// kLoopMultiple.
using PointwiseLoop = void (*)(void* const* out, const void* const* in, int64_t n, const atalla_launch_desc& desc);

// Vectorised maths functions may differ from their scalar forms in the last place. So that a result does not depend on
// where its element stands, loops with such functions only ever see whole vectors of the widest set.
inline constexpr int64_t kLoopMultiple = 16;

inline constexpr atalla_dtype kComputeDtype = 255;    // an operand that the loop meets in the loop type
inline constexpr atalla_dtype kComponentDtype = 254;  // that of the components where the loop type is complex
inline constexpr int kMaxResults = 2;

// The way in which a formula of floats changes the sign bit, if it changes no other bit.
enum class Sign : uint8_t { kOther, kFlip, kClear };

struct PointwiseOp {
  const char* name;
  uint8_t n_outputs;
  uint8_t n_inputs;
  bool divides;           // integers, which may fault
  bool has_requirements;  // so that any dtype may fault
  bool exact;             // no vectorised maths function in the formula
  Sign sign;
  uint64_t dtypes;
  atalla_dtype results[kMaxResults];  // dtype of each result, kComputeDtype or kComponentDtype
  atalla_dtype inputs[ATALLA_MAX_OPERANDS];
};

atalla_status run_pointwise(const Launch& launch, const PointwiseOp& op, int index);

// What is wrong with an element, set by a loop: an integer division by zero, or a requirement of the formula that does
// not hold. The engine turns it into a fault of the launch.
extern __thread const char* element_fault;

}  // namespace atalla::sim::ATALLA_ISA
