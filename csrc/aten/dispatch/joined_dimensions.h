// SPDX-License-Identifier: BSD-3-Clause
//
// Native ops along one dimension of tensors that have more dimensions than a launch: the dimensions before it and those
// after it are joined.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace atalla::aten {

// Runs the op on tensors of at most three dimensions, and gives results and written arguments their own shapes. False,
// with the stack as it was: no tensor has more than ATALLA_MAX_DIMS dimensions, or the op has no such way.
bool run_joined(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace atalla::aten
