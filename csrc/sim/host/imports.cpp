// SPDX-License-Identifier: BSD-3-Clause
#include "sim/host/imports.h"

#include <cinttypes>

#include "sim/abi/error.h"

namespace atalla::sim {

atalla_status ImportTable::add(Device& device, int fd, uint64_t bytes, atalla_addr* base) {
  auto import = std::make_unique<Import>();
  import->device = &device;
  if (const atalla_status status = import->dram.attach(fd, bytes)) return status;
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < kCapacity; ++i) {
    if (slots_[i].load(std::memory_order_relaxed) != nullptr) continue;
    *base = import->dram.base();
    slots_[i].store(import.release(), std::memory_order_release);
    if (i >= used_.load(std::memory_order_relaxed)) used_.store(i + 1, std::memory_order_release);
    return ATALLA_OK;
  }
  return set_error(ATALLA_ERR_LIMIT, "all %u imports of other processes' DRAM are in use", kCapacity);
}

void ImportTable::retire(uint32_t slot) {
  std::unique_ptr<Import> import(slots_[slot].exchange(nullptr, std::memory_order_acq_rel));
  import->dram.unmap();
  retired_.push_back(std::move(import));
}

atalla_status ImportTable::remove(const Device& device, atalla_addr base) {
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < kCapacity; ++i) {
    const Import* import = slots_[i].load(std::memory_order_relaxed);
    if (import == nullptr || import->device != &device || import->dram.base() != base) continue;
    retire(i);
    return ATALLA_OK;
  }
  return set_error(ATALLA_ERR_ARGUMENT, "0x%" PRIx64 " is not where an import of this device begins", base);
}

void ImportTable::remove_all(const Device& device) {
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < kCapacity; ++i) {
    const Import* import = slots_[i].load(std::memory_order_relaxed);
    if (import != nullptr && import->device == &device) retire(i);
  }
}

}  // namespace atalla::sim
