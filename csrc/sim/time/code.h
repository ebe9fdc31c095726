// SPDX-License-Identifier: BSD-3-Clause
//
// How many bytes of Atalla code a launch runs, for a chip whose instruction cache has an end. The compiler knows those
// of its own code; docs/concepts/timing.md lists the estimates for other launches.
#pragma once

#include <cstdint>

#include "sim/device/kernel_traits.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim {

uint32_t estimated_code_bytes(const KernelTraits& traits, const atalla_launch_desc& desc, const Cost& cost);

}  // namespace atalla::sim
