// SPDX-License-Identifier: BSD-3-Clause
//
// The area of a chip.
#pragma once

#include "sim/abi/atalla_schedule.h"
#include "sim/device/config.h"

namespace atalla::sim {

// Square micrometres of all cores and scratchpads. struct_size is that of the struct.
atalla_area area_of(const ChipConfig& config);

}  // namespace atalla::sim
