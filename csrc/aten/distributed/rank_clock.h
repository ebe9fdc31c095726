// SPDX-License-Identifier: BSD-3-Clause
//
// Simulated time that ranks can compare: since the first process group of each was made, where the clocks of all ranks
// are taken to agree, in picoseconds, since chips may differ in their clocks.
#pragma once

#include <cstdint>

#include "runtime/device/runtime.h"

namespace atalla::aten {

// The calling process makes a process group: its clocks start if they have not.
void start_rank_clocks();

// Of a cycle of the device; negative before the start. At most 106 days either way.
int64_t rank_time(const runtime::Device& device, uint64_t cycle);
// The first cycle of the device that is not before the time.
uint64_t cycle_at(const runtime::Device& device, int64_t picoseconds);

}  // namespace atalla::aten
