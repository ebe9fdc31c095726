// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/observer.h"

#include "runtime/device/device.h"

namespace atalla::runtime {

constinit std::atomic<WorkObserver*> work_observer{nullptr};

void look_at_charges(bool observed) noexcept {
  constexpr uint64_t kMost = uint64_t{1} << 27;
  uint64_t bytes = 0;
  const atalla_api& table = api();
  if (table.abi_minor < 6 || table.charges_waiting == nullptr || table.charges_waiting(&bytes) != ATALLA_OK ||
      bytes == 0 || (!observed && bytes < kMost))
    return;
  atalla_counters counters{};
  counters.struct_size = sizeof counters;
  for (int i = 0; i < kMaxDevices; ++i)
    if (Device::is_open(i)) return void(table.counters_read(Device::get(i).handle(), &counters));  // settles all
}

}  // namespace atalla::runtime
