// SPDX-License-Identifier: BSD-3-Clause
//
// One simulated chip: its configuration, DRAM, scratchpads, clock and default stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "sim/abi/atalla.h"
#include "sim/device/charges.h"
#include "sim/device/config.h"
#include "sim/device/firmware.h"
#include "sim/device/kernel_table.h"
#include "sim/energy/model.h"
#include "sim/isa/core.h"
#include "sim/memory/dram.h"
#include "sim/memory/dram_allocator.h"
#include "sim/time/telemetry.h"
#include "sim/time/timing.h"

namespace atalla::sim {

inline constexpr int32_t kMaxDevices = 64;

class Device {
 public:
  Device(int32_t ordinal, ChipConfig config, std::string config_text);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Maps `dram_bytes` (not 0) of DRAM and makes the device ready; to be called once.
  atalla_status open(uint64_t dram_bytes);

  int32_t ordinal() const { return ordinal_; }
  const ChipConfig& config() const { return config_; }
  const std::string& config_text() const { return config_text_; }
  const Dram& dram() const { return dram_; }
  const KernelTable& kernels() const { return kernels_; }
  const Timing& timing() const { return timing_; }
  const EnergyModel& energy() const { return energy_; }
  // The scratchpads as memory for operands: one after the other, in addresses of their own.
  Telemetry& telemetry() { return telemetry_; }
  ScratchpadAllocator& scratchpads() { return scratchpads_; }
  isa::Core& core() { return core_; }
  Charges& charges() { return charges_; }
  const Charges& charges() const { return charges_; }
  void properties(atalla_device_properties* properties) const;

  // DRAM, as in atalla.h; thread-safe.
  atalla_status allocate(uint64_t bytes, uint64_t align, atalla_addr* addr);
  atalla_status free(atalla_addr addr);
  void memory_info(uint64_t* free_bytes, uint64_t* total_bytes);

  // Engine pointer to [addr, addr + bytes) in DRAM or in an import of this device. ATALLA_ERR_FAULT_ADDRESS, with the
  // range and the DRAM's, outside.
  atalla_status translate(atalla_addr addr, uint64_t bytes, void** engine) const;

  uint64_t default_stream = 0;               // handle
  std::atomic<uint32_t> streams_created{0};  // gives streams their ordinal; 0 is the default stream

 private:
  int32_t ordinal_;
  ChipConfig config_;
  std::string config_text_;
  KernelTable kernels_ = kernel_table();
  Timing timing_;
  EnergyModel energy_;
  Telemetry telemetry_;
  Dram dram_;
  std::mutex memory_mutex_;
  DramAllocator allocator_;
  ScratchpadAllocator scratchpads_;
  isa::Core core_;
  Charges charges_{this, config_.launch_overhead_cycles};
};

}  // namespace atalla::sim
