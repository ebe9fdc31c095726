// SPDX-License-Identifier: BSD-3-Clause
//
// What a launch does, as its descriptor says, for a launch without code of the chip.
#pragma once

#include "sim/device/config.h"
#include "sim/device/kernel_traits.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim {

// At the chip's full rates: each operand passes the bus once, and rows of the array are as many as the multiply-adds
// fill. A launch without multiply-adds takes one vector instruction for each 32 elements of its largest operand. Every
// operand of `desc` is well-formed.
Work work_of(const ChipConfig& chip, const KernelTraits& traits, const Kernel& kernel, const atalla_launch_desc& desc);

}  // namespace atalla::sim
