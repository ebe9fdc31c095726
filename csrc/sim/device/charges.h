// SPDX-License-Identifier: BSD-3-Clause
//
// The charges of launches whose code was run: by the numbers that their descriptors name, or by their kind.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/abi/atalla.h"
#include "sim/time/telemetry.h"

namespace atalla::sim {

// Thread-safe. Numbers stay valid as long as the device.
class Charges {
 public:
  // Cycles that every launch takes beside its code.
  explicit Charges(uint64_t overhead) : overhead_(overhead) {}

  // ATALLA_ERR_ARGUMENT for a unit that works longer than the launch takes.
  atalla_status add(const atalla_launch_charge& given, uint32_t* number);
  // Of a number that `add` gave.
  LaunchCharge operator[](uint32_t number) const;
  uint32_t count() const { return count_.load(std::memory_order_acquire); }

  // By kind of launch (kind_of_launch in launch.h). Null: no code tells.
  void learn(std::string kind, const atalla_launch_charge* given);
  bool knows(const std::string& kind) const;
  std::optional<LaunchCharge> find(const std::string& kind) const;

 private:
  uint64_t overhead_;
  mutable std::mutex mutex_;
  std::vector<LaunchCharge> charges_;  // number k at k - 1
  std::atomic<uint32_t> count_{0};
  std::unordered_map<std::string, std::optional<LaunchCharge>> kinds_;
};

struct ChargeProvider {
  atalla_charge_provider function = nullptr;
  void* context = nullptr;
};

void set_charge_provider(atalla_charge_provider function, void* context);
ChargeProvider charge_provider();
extern std::atomic<bool> provider_present;
inline bool has_charge_provider() { return provider_present.load(std::memory_order_relaxed); }

}  // namespace atalla::sim
