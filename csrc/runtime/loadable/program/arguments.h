// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "runtime/loadable/file/problems.h"
#include "runtime/loadable/program/load.h"

namespace atalla::runtime::loadable {

// Compares a caller's tensor with what the program expects. `what` is "input" or "output"; `device` is null for host
// memory. Adds one problem for each property that differs.
void check_argument(const char* what, size_t index, const BoundPort& port, const atalla_tensor& given,
                    const Device* device, Problems& problems);

}  // namespace atalla::runtime::loadable
