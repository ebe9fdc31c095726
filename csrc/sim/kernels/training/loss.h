// SPDX-License-Identifier: BSD-3-Clause
//
// The reductions of losses.
#pragma once

#include <cstdint>

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

enum class LossReduction : int64_t { None, Mean, Sum };

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
