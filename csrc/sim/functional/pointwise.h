// SPDX-License-Identifier: BSD-3-Clause
//
// Pointwise kernels: one formula an op, compiled once for each dtype in which it computes (the loop types), over
// contiguous arrays; the engine brings operands of any dtype and layout into that form. docs/pointwise.md.
#pragma once

#include "convert_types.h"

namespace atalla::sim::ATALLA_ISA {

// The formula over n elements. out and in are arrays of the loop type (BOOL is stored as a byte), out may be one of in.
// Unless the op is `exact` for the dtype, n is a multiple of kLoopMultiple.
using PointwiseLoop = void (*)(void* out, const void* const* in, int64_t n, const atalla_launch_desc& desc);

// Vectorised maths functions may differ from their scalar forms in the last place. So that a result does not depend on
// where its element stands, loops with such functions only ever see whole vectors of the widest set.
inline constexpr int64_t kLoopMultiple = 16;

inline constexpr atalla_dtype kComputeDtype = 255;  // an input that is loaded as the compute dtype

struct PointwiseOp {
  const char* name;
  uint8_t n_inputs;
  bool result_bool;  // the formula's value is a truth value; else it has the compute dtype,
  bool result_real;  // or that of its components, if the compute dtype is complex
  bool may_fault;    // divides integers
  bool exact;        // no vectorised maths function in the formula
  // Vector instructions of 32 lanes that the chip needs for 32 elements: real ones, complex ones.
  uint16_t vector_ops[2];
  uint16_t exp_ops[2];
  uint64_t dtypes;
  atalla_dtype inputs[ATALLA_MAX_OPERANDS];
};

atalla_status run_pointwise(const Launch& launch, const PointwiseOp& op, int index);
void cost_pointwise(const atalla_launch_desc& desc, const PointwiseOp& op, Cost& cost);

// Set by integer division by zero in a formula; the engine turns it into a fault of the launch.
extern __thread bool integer_division_by_zero;

// The loops of each loop type, indexed as the generated list of ops; null where the op does not take the dtype.
extern const PointwiseLoop* const kPointwiseLoopsBool;
extern const PointwiseLoop* const kPointwiseLoopsU8;
extern const PointwiseLoop* const kPointwiseLoopsI8;
extern const PointwiseLoop* const kPointwiseLoopsI16;
extern const PointwiseLoop* const kPointwiseLoopsI32;
extern const PointwiseLoop* const kPointwiseLoopsI64;
extern const PointwiseLoop* const kPointwiseLoopsF32;
extern const PointwiseLoop* const kPointwiseLoopsF64;
extern const PointwiseLoop* const kPointwiseLoopsC64;
extern const PointwiseLoop* const kPointwiseLoopsC128;

}  // namespace atalla::sim::ATALLA_ISA
