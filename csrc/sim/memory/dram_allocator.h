// SPDX-License-Identifier: BSD-3-Clause
//
// First-fit allocator over the whole DRAM of a device. It is the slow path under the driver's caching allocator.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "sim/abi/atalla.h"

namespace atalla::sim {

// Not thread-safe; the device locks around it.
class DramAllocator {
 public:
  // Manages [base, base + bytes). `alignment`, a power of two, is the granularity of every block.
  void reset(atalla_addr base, uint64_t bytes, uint64_t alignment);

  // bytes > 0; align a power of two, or 0 for the granularity. ATALLA_ERR_OUT_OF_MEMORY tells what is free and how
  // large the largest free block is.
  atalla_status allocate(uint64_t bytes, uint64_t align, atalla_addr* addr);

  // The address must be one that allocate() gave and that is not freed yet. *bytes gets the block's size.
  atalla_status free(atalla_addr addr, uint64_t* bytes);

  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  std::map<atalla_addr, uint64_t> free_;  // start -> bytes; neighbours are always merged
  std::unordered_map<atalla_addr, uint64_t> allocated_;
  uint64_t granularity_ = 1;
  uint64_t free_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace atalla::sim
