// SPDX-License-Identifier: BSD-3-Clause
//
// How the operands of a launch lie in DRAM as tiles of the SDMA: the tiles that generated code moves
// (torch_atalla/compiler/targets/chip), by the rules of docs/concepts/timing.md.
#pragma once

#include "sim/abi/atalla_schedule.h"
#include "sim/device/kernel_traits.h"

namespace atalla::sim {

inline bool in_memory(const atalla_operand& operand) { return operand.immediate == 0 && operand.addr != 0; }

// Fills layout[0] to layout[desc.n_operands - 1]. Every operand of `desc` is well-formed.
void lay_out(const atalla_geometry& chip, const KernelTraits& traits, const atalla_launch_desc& desc,
             atalla_tile_layout* layout);

}  // namespace atalla::sim
