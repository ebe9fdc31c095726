// SPDX-License-Identifier: BSD-3-Clause
//
// What launches are charged whose code was run: by the numbers that their descriptors name.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "sim/abi/atalla.h"
#include "sim/time/telemetry.h"

namespace atalla::sim {

// Thread-safe. Numbers stay valid as long as the device.
class Charges {
 public:
  // ATALLA_ERR_ARGUMENT for a unit that works longer than the launch takes.
  atalla_status add(const atalla_launch_charge& given, uint32_t* number);
  // Of a number that `add` gave.
  LaunchCharge operator[](uint32_t number) const;
  uint32_t count() const { return count_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::vector<LaunchCharge> charges_;  // number k at k - 1
  std::atomic<uint32_t> count_{0};
};

}  // namespace atalla::sim
