// SPDX-License-Identifier: BSD-3-Clause
//
// Firmware services that programs call by jalr.s to a reserved address (docs/concepts/isa-engine.md).
#pragma once

#include "sim/isa/state.h"

namespace atalla::sim::isa {

// scpad_alloc or scpad_free, with arguments and results in x10 and x11, or barrier.
void call_service(State& state, uint32_t address);

// Gives back the pages that the program still holds.
void release_pages(State& state);

}  // namespace atalla::sim::isa
