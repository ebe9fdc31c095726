// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/device.h"

#include <cinttypes>
#include <cstring>

#include "sim/abi/error.h"
#include "sim/device/registry.h"

namespace atalla::sim {
namespace {

// Freed blocks of at least this size give their host pages back; smaller ones are cheaper to keep.
constexpr uint64_t kDiscardBytes = uint64_t{1} << 20;

}  // namespace

Device::Device(int32_t ordinal, ChipConfig config, std::string config_text)
    : ordinal_(ordinal),
      config_(std::move(config)),
      config_text_(std::move(config_text)),
      timing_(config_),
      energy_(config_),
      telemetry_(config_.telemetry_records, energy_) {}

atalla_status Device::open(uint64_t dram_bytes) {
  if (const atalla_status status = dram_.open(dram_bytes, ordinal_)) return status;
  allocator_.reset(dram_.base(), dram_.size(), config_.dram_alignment);
  scratchpads_.reset(static_cast<uint32_t>(config_.scratchpad_count), config_.scratchpad_bytes,
                     static_cast<uint32_t>(config_.scratchpad_row_bytes));
  return ATALLA_OK;
}

void Device::properties(atalla_device_properties* properties) const {
  properties->ordinal = ordinal_;
  strncpy(properties->name, config_.chip_name.c_str(), sizeof properties->name - 1);
  properties->dram_bytes = dram_.size();
  properties->dram_base = dram_.base();
  properties->dram_alignment = static_cast<uint32_t>(config_.dram_alignment);
  properties->scratchpads = static_cast<uint32_t>(config_.scratchpad_count);
  properties->scratchpad_bytes = config_.scratchpad_bytes;
  properties->vector_lanes = static_cast<uint32_t>(config_.vector_lanes);
  properties->array_rows = static_cast<uint32_t>(config_.array_rows);
  properties->array_columns = static_cast<uint32_t>(config_.array_columns);
  properties->program_cores = config_.core_own_scratchpads ? static_cast<uint32_t>(config_.core_count) : 1;
  properties->clock_hz = static_cast<double>(config_.chip_clock_hz);
  properties->bus_bytes_per_cycle = static_cast<double>(config_.bus_width_bytes);
}

atalla_status Device::allocate(uint64_t bytes, uint64_t align, atalla_addr* addr) {
  const std::lock_guard lock(memory_mutex_);
  const atalla_status status = allocator_.allocate(bytes, align, addr);
  if (status == ATALLA_ERR_OUT_OF_MEMORY) prefix_error("device %d: ", static_cast<int>(ordinal_));
  return status;
}

atalla_status Device::free(atalla_addr addr) {
  const std::lock_guard lock(memory_mutex_);
  uint64_t bytes = 0;
  if (const atalla_status status = allocator_.free(addr, &bytes)) return status;
  // Still under the lock: nobody may get the block before its pages are gone.
  if (bytes >= kDiscardBytes) dram_.discard(addr, bytes);
  return ATALLA_OK;
}

void Device::memory_info(uint64_t* free_bytes, uint64_t* total_bytes) {
  const std::lock_guard lock(memory_mutex_);
  *free_bytes = allocator_.free_bytes();
  *total_bytes = allocator_.total_bytes();
}

atalla_status Device::translate(atalla_addr addr, uint64_t bytes, void** engine) const {
  if (!dram_.contains(addr, bytes)) {
    const Import* import = registry.imports.find(addr, 1);
    if (import != nullptr && import->device == this && import->dram.contains(addr, bytes)) {
      *engine = import->dram.translate(addr);
      return ATALLA_OK;
    }
    return set_error(ATALLA_ERR_FAULT_ADDRESS,
                     "%" PRIu64 " bytes at 0x%" PRIx64 " lie outside the DRAM of device %d: %" PRIu64
                     " bytes at 0x%" PRIx64,
                     bytes, addr, static_cast<int>(ordinal_), dram_.size(), dram_.base());
  }
  *engine = dram_.translate(addr);
  return ATALLA_OK;
}

}  // namespace atalla::sim
