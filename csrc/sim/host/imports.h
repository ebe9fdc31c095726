// SPDX-License-Identifier: BSD-3-Clause
//
// DRAM of other processes' devices, mapped into this process. An imported region has addresses of its own in the device
// view, outside the DRAM of the device that it was imported to; that device's launches and copies take them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/abi/atalla.h"
#include "sim/memory/dram.h"

namespace atalla::sim {

class Device;

struct Import {
  Dram dram;
  Device* device = nullptr;  // the importer
};

// All imports of the process. Lookups take no lock.
class ImportTable {
 public:
  static constexpr uint32_t kCapacity = 256;

  // Maps `bytes` bytes of the file (0: all of it). The descriptor stays the caller's. ATALLA_ERR_SYSTEM when it cannot
  // be mapped, ATALLA_ERR_ARGUMENT for more bytes than it has, ATALLA_ERR_LIMIT when the table is full.
  atalla_status add(Device& device, int fd, uint64_t bytes, atalla_addr* base);
  // Unmaps what add() gave to this device. Nothing may be running that uses it.
  atalla_status remove(const Device& device, atalla_addr base);
  void remove_all(const Device& device);

  // The import that meets [addr, addr + bytes), or null.
  const Import* find(atalla_addr addr, uint64_t bytes) const {
    const uint32_t used = used_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < used; ++i) {
      const Import* import = slots_[i].load(std::memory_order_acquire);
      if (import != nullptr && import->dram.meets(addr, bytes)) return import;
    }
    return nullptr;
  }

 private:
  void retire(uint32_t slot);

  std::mutex mutex_;
  std::array<std::atomic<Import*>, kCapacity> slots_{};
  std::atomic<uint32_t> used_{0};  // slots from here on were never taken
  // A lookup on another thread may be reading an entry that is being removed: entries outlive their mapping.
  std::vector<std::unique_ptr<Import>> retired_;
};

}  // namespace atalla::sim
