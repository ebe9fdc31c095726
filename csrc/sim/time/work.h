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

// Bytes of the scratchpads for the tiles under way of a launch: two per operand. The inputs of a concatenation are
// moved one after another.
inline uint64_t working_bytes(const Cost& cost, const KernelTraits& traits, int operands) {
  return 2 * cost.tile_bytes() * (traits.concatenation ? 2 : operands);
}

// Bytes of the scratchpads that a launch takes: its tiles under way, the blocks of operands in DRAM, and the operands
// of the mask `resident`. At most `capacity`: large blocks are made to fill both scratchpads.
uint32_t occupied_bytes(const atalla_launch_desc& desc, const atalla_launch_work& work, uint32_t resident,
                        uint64_t capacity);

}  // namespace atalla::sim
