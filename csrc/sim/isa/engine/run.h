// SPDX-License-Identifier: BSD-3-Clause
//
// The inner loop, compiled once an instruction set of the host (as the kernels, kernels/base/kernel.h).
#pragma once

#include <cstdint>

#include "sim/isa/program.h"
#include "sim/isa/state.h"

#ifndef ATALLA_ISA
#define ATALLA_ISA baseline
#endif

namespace atalla::sim::isa {

// Runs at most `budget` packets from state.packet on, fewer at a barrier, and says in `state` how it ended. `executed`
// counts the runs of each packet; one that faults counts not.
using RunFunction = void (*)(const Program& program, State& state, uint64_t budget, uint64_t* executed);

// For the host's instruction set (ATALLA_ISA, as kernel_isa()).
RunFunction run_function();

}  // namespace atalla::sim::isa
