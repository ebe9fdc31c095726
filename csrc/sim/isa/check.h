// SPDX-License-Identifier: BSD-3-Clause
//
// The packet checker: what the hardware cannot issue together (docs/guides/isa.md). torch_atalla/isa/checker.py has the
// same rules for programs that are not running yet.
#pragma once

#include <string>

#include "sim/isa/instruction.h"

namespace atalla::sim::isa {

// The bits of `group` that instructions for this chip's array may have.
int array_groups(const ChipConfig& config);

// -1 for a legal packet, else the slot that breaks a rule, with the reason. groups: as of array_groups.
int check_packet(const std::array<Instruction, kSlots>& packet, int groups, std::string* reason);

}  // namespace atalla::sim::isa
