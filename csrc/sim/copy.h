// SPDX-License-Identifier: BSD-3-Clause
//
// Copies between host and DRAM, and between DRAMs.
#pragma once

#include <cstdint>

#include "atalla.h"
#include "device.h"

namespace atalla::sim {

// The kind as the number that the caller wrote, which need not be one of the enumeration's.
int copy_kind(const atalla_copy_params& params);

// Runs the copy and moves *stream_clock to its end. Addresses in DRAM are checked against it
// (ATALLA_ERR_FAULT_ADDRESS), host ranges against being device addresses (ATALLA_ERR_ARGUMENT). Between two devices
// both are charged; the caller keeps the other one open. Overlapping rows copy as if through a buffer when there is one
// row, else in ascending order.
atalla_status run_copy(Device& device, const atalla_copy_params& params, uint64_t* stream_clock);

}  // namespace atalla::sim
