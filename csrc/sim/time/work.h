// SPDX-License-Identifier: BSD-3-Clause
//
// A launch's work in detail: whose bytes pass the bus, what cores can divide, what its blocks take of the scratchpads.
// A kernel only counts totals (Cost); the rest follows from its operands by the rules of docs/concepts/timing.md.
#pragma once

#include "sim/abi/atalla_schedule.h"
#include "sim/device/kernel_traits.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim {

// All of *work but struct_size. Every operand of `desc` is well-formed.
void detail_work(const KernelTraits& traits, const atalla_launch_desc& desc, const Cost& cost,
                 atalla_launch_work* work);

}  // namespace atalla::sim
