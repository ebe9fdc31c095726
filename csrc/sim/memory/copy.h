// SPDX-License-Identifier: BSD-3-Clause
//
// Copies between host and DRAM, and between DRAMs.
#pragma once

#include <array>
#include <cstdint>

#include "sim/abi/atalla.h"
#include "sim/device/device.h"

namespace atalla::sim {

// The kind as the number that the caller wrote, which need not be one of the enumeration's.
int copy_kind(const atalla_copy_params& params);

CopyCharge price_copy(const Device& device, const CopyShape& shape);

// The charges of a stream's latest copies, one of each kind: the same ones again cost the host a comparison.
class CopyMemo {
 public:
  // Of a copy of `device`, which is always the same one.
  const CopyCharge& charge_of(const Device& device, const CopyShape& shape);

 private:
  std::array<CopyCharge, ATALLA_COPY_DEVICE_TO_DEVICE> known_{};
};

// Runs the copy. Addresses in DRAM are checked against it (ATALLA_ERR_FAULT_ADDRESS), host ranges against being device
// addresses (ATALLA_ERR_ARGUMENT). Overlapping rows copy as if through a buffer when there is one row, else in
// ascending order. Between two devices the caller keeps the other one open, here and below.
atalla_status execute_copy(Device& device, const atalla_copy_params& params);

// Charges a copy and moves the stream's clock to its end; checks all but the addresses. Between two devices both are
// charged, each for its own end, and the copy is done when both are.
atalla_status charge_copy(Device& device, uint32_t stream, const atalla_copy_params& params, StreamClock* clock);

// Both, in this order; nothing is charged if the copy fails.
atalla_status copy(Device& device, uint32_t stream, const atalla_copy_params& params, CopyMemo* memo,
                   StreamClock* clock);

}  // namespace atalla::sim
