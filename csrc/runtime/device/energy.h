// SPDX-License-Identifier: BSD-3-Clause
//
// The energy of a launch that does not run.
#pragma once

#include <cstddef>

#include "sim/abi/atalla.h"

namespace atalla::runtime {

// Zeros from a device library without an energy model. Throws Error for a malformed launch.
atalla_energy launch_energy(atalla_device device, const atalla_launch_desc& desc, size_t desc_bytes);

}  // namespace atalla::runtime
