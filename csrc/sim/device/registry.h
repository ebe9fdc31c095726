// SPDX-License-Identifier: BSD-3-Clause
//
// All devices, streams and events of the process, by handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "sim/abi/handle_table.h"
#include "sim/device/device.h"
#include "sim/device/stream.h"
#include "sim/host/imports.h"
#include "sim/time/instant.h"

namespace atalla::sim {

struct DeviceSlot {
  Device* device = nullptr;
};

struct MeetingSlot {
  std::shared_ptr<Meeting> meeting;
};

// Kinds are tags in the handles' top byte.
struct Registry {
  // Held shared by calls that use a device without going through one of its streams, and exclusively while a device is
  // opened or closed. Taken before any stream's lock.
  std::shared_mutex mutex;
  HandleTable<DeviceSlot, 0xA1, kMaxDevices, 1> devices;
  HandleTable<Stream, 0xA2, 64, 128> streams;
  HandleTable<EventSlot, 0xA3, 1024, 1024> events;
  HandleTable<MeetingSlot, 0xA4, 64, 1024> meetings;

  // Where the DRAMs stand, readable without the lock.
  struct Range {
    std::atomic<uint64_t> base{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<Device*> device{nullptr};
  };
  std::array<Range, kMaxDevices> ranges;
  std::atomic<uint32_t> ranges_used{0};  // ordinals from here on were never opened

  ImportTable imports;

  // The device whose DRAM's device view, or whose import, meets [addr, addr + bytes), or null. The pointer
  // is valid under the mutex only.
  Device* device_at(uint64_t addr, uint64_t bytes) const;
};

extern constinit Registry registry;

atalla_status open_device(const atalla_device_params& params, uint64_t* handle);
atalla_status close_device(uint64_t handle);
atalla_status device_count(int32_t* count);

// A stream of the device. Priorities are the caller's hint; with work run on submission there is nothing to order.
// ATALLA_ERR_LIMIT when all are in use.
atalla_status create_stream(Device& device, uint64_t* handle);

}  // namespace atalla::sim
