// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/async_fault.h"

#include <array>
#include <mutex>
#include <vector>

#include "runtime/device/device.h"

namespace atalla::runtime {
namespace {

struct Faults {
  std::atomic<uint32_t> count{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<AsyncFault>> faults;
};

std::array<Faults, kMaxDevices>& table() {
  static auto* const faults = new std::array<Faults, kMaxDevices>;
  return *faults;
}

}  // namespace

void add_async_fault(const Device& device, std::shared_ptr<AsyncFault> fault) {
  Faults& kept = table()[static_cast<size_t>(device.ordinal())];
  const std::lock_guard lock(kept.mutex);
  kept.faults.push_back(std::move(fault));
  kept.count.store(static_cast<uint32_t>(kept.faults.size()), std::memory_order_release);
}

void throw_async_fault(const Device& device) {
  Faults& kept = table()[static_cast<size_t>(device.ordinal())];
  if (kept.count.load(std::memory_order_acquire) == 0) return;
  std::vector<std::shared_ptr<AsyncFault>> faults;
  {
    const std::lock_guard lock(kept.mutex);
    faults.swap(kept.faults);
    kept.count.store(0, std::memory_order_release);
  }
  std::shared_ptr<AsyncFault> first;
  for (const auto& fault : faults) {
    if (!fault->told.exchange(true) && first == nullptr) first = fault;
  }
  if (first != nullptr) throw AsyncError(first->error);
}

}  // namespace atalla::runtime
