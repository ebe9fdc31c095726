// SPDX-License-Identifier: BSD-3-Clause
//
// The packet checker: what the hardware cannot issue together (docs/guides/isa.md). torch_atalla/isa/checker.py has the
// same rules for programs that are not running yet.
#pragma once

#include <string>

#include "sim/isa/instruction.h"

namespace atalla::sim::isa {

// -1 for a legal packet, else the slot that breaks a rule, with the reason.
int check_packet(const std::array<Instruction, kSlots>& packet, std::string* reason);

}  // namespace atalla::sim::isa
