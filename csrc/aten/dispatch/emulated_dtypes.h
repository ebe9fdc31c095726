// SPDX-License-Identifier: BSD-3-Clause
//
// Native ops on dtypes that the chip does not have (complex32, wide unsigned integers, 8-bit floats): on the chip, in a
// dtype that it has.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace atalla::aten {

// Runs the op with such tensors in a dtype of the chip, and puts results and written arguments back into theirs. Which:
//   - ops that only move elements, as integers of their size;
//   - complex32 in complex64, uint16 in int32, uint32 in int64, 8-bit floats in float32;
//   - uint64 in int64 with the highest bit turned over, so that the order is the same, or (ops that compute in floating
//     point) in float32.
// False, with the stack as it was: no such dtype takes part, or the op has no way.
bool run_emulated(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// A number as the integer of the chip that has the bits it would have in `dtype`.
at::Scalar emulated_bits(const at::Scalar& value, c10::ScalarType dtype);

}  // namespace atalla::aten
