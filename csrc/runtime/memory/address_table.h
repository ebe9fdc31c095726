// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "runtime/device/error.h"
#include "runtime/memory/block.h"
#include "runtime/memory/pool.h"

namespace atalla::runtime {

// The block that starts at an address: one pointer for each 512 bytes of DRAM, in memory that the system commits only
// where it is touched (16 KiB for each MiB of DRAM in use). A lookup is one load.
class AddressTable {
 public:
  AddressTable(uintptr_t base, size_t dram_bytes) : base_(base), entries_(dram_bytes / kBlockAlign + 1) {
    void* memory = mmap(nullptr, entries_ * sizeof(Block*), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      throw Error(ATALLA_ERR_SYSTEM, std::string("cannot reserve the allocator's address table: ") + strerror(errno));
    table_ = static_cast<Block**>(memory);
  }
  ~AddressTable() { munmap(table_, entries_ * sizeof(Block*)); }
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;

  void set(uintptr_t addr, Block* block) noexcept { table_[(addr - base_) / kBlockAlign] = block; }
  // Null for an address outside DRAM or where no block starts.
  Block* find(uintptr_t addr) const noexcept {
    const size_t entry = (addr - base_) / kBlockAlign;
    if (entry >= entries_) return nullptr;
    Block* block = table_[entry];
    return block != nullptr && block->addr == addr ? block : nullptr;
  }

 private:
  uintptr_t base_;
  size_t entries_;
  Block** table_ = nullptr;
};

}  // namespace atalla::runtime
