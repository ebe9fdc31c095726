// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/memory/allocator_oom.h"

#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace atalla::runtime {
namespace {

// "1.50 GiB", as PyTorch writes sizes.
std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  char text[64];
  if (unit == 0) {
    std::snprintf(text, sizeof text, "%" PRIu64 " bytes", bytes);
  } else {
    std::snprintf(text, sizeof text, "%.2f %s", value, kUnits[unit]);
  }
  return text;
}

std::string message(const OutOfMemory::Numbers& n) {
  std::string text = "atalla out of memory. Tried to allocate " +
                     (n.requested >> 60 != 0 ? "more than 1EB memory" : bytes_text(n.requested)) + ". Device " +
                     std::to_string(n.device) + " has a total capacity of " + bytes_text(n.total) + " of which " +
                     bytes_text(n.free) + " is free. ";
  if (n.limit != 0) text += "The allocator may reserve " + bytes_text(n.limit) + ". ";
  return text + "Of the " + bytes_text(n.reserved) + " that it has reserved, " + bytes_text(n.allocated) +
         " is allocated by tensors and other users, and " + bytes_text(n.reserved - n.allocated) +
         " is reserved but unallocated (if that is much, max_split_size_mb in TORCH_ATALLA_ALLOC_CONF may help against "
         "fragmentation).";
}

struct Observers {
  std::mutex mutex;
  std::vector<std::function<void(const OutOfMemory::Numbers&)>> list;
};
Observers& observers() {
  static auto* all = new Observers;  // allocations may come after static destruction
  return *all;
}

}  // namespace

OutOfMemory::OutOfMemory(const Numbers& numbers)
    : Error(ATALLA_ERR_OUT_OF_MEMORY, message(numbers)), numbers_(numbers) {}
OutOfMemory::~OutOfMemory() = default;

void add_oom_observer(std::function<void(const OutOfMemory::Numbers&)> observer) {
  std::lock_guard guard(observers().mutex);
  observers().list.push_back(std::move(observer));
}

void tell_oom_observers(const OutOfMemory::Numbers& numbers) {
  std::unique_lock guard(observers().mutex);
  const auto list = observers().list;  // one may ask the allocator for something
  guard.unlock();
  for (const auto& observer : list) observer(numbers);
}

}  // namespace atalla::runtime
