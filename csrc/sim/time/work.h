// SPDX-License-Identifier: BSD-3-Clause
//
// The header counts the bytes and operations of a launch without code of the chip, from its descriptor.
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
