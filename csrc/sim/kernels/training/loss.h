// SPDX-License-Identifier: BSD-3-Clause
//
// The reductions of losses.
#pragma once

#include <cstdint>

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
