// SPDX-License-Identifier: BSD-3-Clause
//
// Copies between host and DRAM, and between DRAMs.
#pragma once

#include <cstdint>

#include "sim/abi/atalla.h"
#include "sim/device/device.h"

namespace atalla::sim {

// The kind as the number that the caller wrote, which need not be one of the enumeration's.
int copy_kind(const atalla_copy_params& params);

// Runs the copy. Addresses in DRAM are checked against it (ATALLA_ERR_FAULT_ADDRESS), host ranges against being device
// addresses (ATALLA_ERR_ARGUMENT). Overlapping rows copy as if through a buffer when there is one row, else in
// ascending order. Between two devices the caller keeps the other one open, here and below.
atalla_status execute_copy(Device& device, const atalla_copy_params& params);

// Charges a copy and moves the stream's clock to its end; checks all but the addresses. Between two devices both are
// charged, each for its own end, and the copy is done when both are.
atalla_status charge_copy(Device& device, uint32_t stream, const atalla_copy_params& params, StreamClock* clock);

}  // namespace atalla::sim
