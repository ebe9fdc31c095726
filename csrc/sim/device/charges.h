// SPDX-License-Identifier: BSD-3-Clause
//
// The charges of launches whose code was run: by the numbers that their descriptors name, or by their kind.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/abi/atalla.h"
#include "sim/time/telemetry.h"

namespace atalla::sim {

class Device;

// The charge of a kind of launch. A provider tells it some time after the first launch of the kind.
struct KindCharge : std::enable_shared_from_this<KindCharge> {
  bool told() const { return told_.load(std::memory_order_acquire); }
  const LaunchCharge& value() const { return told() && code ? *code : model; }

  Device* device = nullptr;
  std::vector<std::byte> desc;   // of the first launch, with the numbers that stand for all of them
  std::vector<int64_t> program;  // that all of them have
  atalla_launch_record head{};   // what the records of all of them say
  LaunchCharge model;
  std::optional<LaunchCharge> code;  // to be read when told
  std::atomic<bool> told_{false};
};

// Of one launch.
struct PricedLaunch {
  LaunchCharge charge;
  const KindCharge* kind = nullptr;  // not null: what it says when the launch takes its place in time counts
};

// Thread-safe. Numbers stay valid as long as the device.
class Charges {
 public:
  // Cycles that every launch takes beside its code.
  Charges(Device* device, uint64_t overhead) : device_(device), overhead_(overhead) {}

  // ATALLA_ERR_ARGUMENT for a unit that works longer than the launch takes.
  atalla_status add(const atalla_launch_charge& given, uint32_t* number);
  // Of a number that `add` gave.
  LaunchCharge operator[](uint32_t number) const;
  uint32_t count() const { return count_.load(std::memory_order_acquire); }

  // Of all launches with the same `name`, of which `desc` with its vector program is one. Stays where it is as long as
  // the device. `price` gives the charge if no code tells, or (`told`) in any case.
  template <class Price>
  const KindCharge* kind(std::string name, const atalla_launch_desc& desc, std::span<const int64_t> program, bool told,
                         const Price& price) {
    const std::lock_guard lock(kinds_mutex_);
    std::shared_ptr<KindCharge>& known = kinds_[std::move(name)];
    if (known == nullptr) known = new_kind(desc, program, price(), told);
    return known.get();
  }
  // Null: no code tells. Only the first time counts.
  void tell(const KindCharge* kind, const atalla_launch_charge* given);

 private:
  std::shared_ptr<KindCharge> new_kind(const atalla_launch_desc& desc, std::span<const int64_t> program,
                                       const LaunchCharge& model, bool told) const;

  Device* device_;
  uint64_t overhead_;
  mutable std::mutex mutex_;
  std::vector<LaunchCharge> charges_;  // number k at k - 1
  std::atomic<uint32_t> count_{0};
  std::mutex kinds_mutex_;
  std::unordered_map<std::string, std::shared_ptr<KindCharge>> kinds_;
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
