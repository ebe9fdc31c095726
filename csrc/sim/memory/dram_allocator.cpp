// SPDX-License-Identifier: BSD-3-Clause
#include "sim/memory/dram_allocator.h"

#include <algorithm>
#include <bit>
#include <cinttypes>

#include "sim/abi/error.h"

namespace atalla::sim {

void DramAllocator::reset(atalla_addr base, uint64_t bytes, uint64_t alignment) {
  free_.clear();
  allocated_.clear();
  free_.emplace(base, bytes);
  granularity_ = alignment;
  free_bytes_ = total_bytes_ = bytes;
}

atalla_status DramAllocator::allocate(uint64_t bytes, uint64_t align, atalla_addr* addr) {
  if (bytes == 0) return set_error(ATALLA_ERR_ARGUMENT, "mem_alloc of 0 bytes; expected at least 1");
  if (align != 0 && !std::has_single_bit(align)) {
    return set_error(ATALLA_ERR_ARGUMENT, "mem_alloc alignment is %" PRIu64 "; expected a power of two, or 0", align);
  }
  const uint64_t step = std::max(align, granularity_);
  const uint64_t size = bytes <= total_bytes_ ? (bytes + granularity_ - 1) & ~(granularity_ - 1) : bytes;
  uint64_t largest = 0;
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [start, length] = *it;
    largest = std::max(largest, length);
    const uint64_t padding = (step - start % step) % step;
    if (padding > length || size > length - padding) continue;
    const uint64_t tail = length - padding - size;
    if (padding != 0) {
      it->second = padding;
    } else {
      free_.erase(it);
    }
    if (tail != 0) free_.emplace(start + padding + size, tail);
    allocated_.emplace(start + padding, size);
    free_bytes_ -= size;
    *addr = start + padding;
    return ATALLA_OK;
  }
  return set_error(ATALLA_ERR_OUT_OF_MEMORY,
                   "DRAM is exhausted: %" PRIu64 " bytes (alignment %" PRIu64 ") requested, %" PRIu64 " of %" PRIu64
                   " bytes free, the largest free block has %" PRIu64,
                   bytes, step, free_bytes_, total_bytes_, largest);
}

atalla_status DramAllocator::free(atalla_addr addr, uint64_t* bytes) {
  const auto found = allocated_.find(addr);
  if (found == allocated_.end()) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "mem_free of 0x%" PRIx64 ", which is not the start of an allocated block (freed twice?)", addr);
  }
  uint64_t size = found->second;
  *bytes = size;
  free_bytes_ += size;
  allocated_.erase(found);
  auto next = free_.lower_bound(addr);
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == addr) {
      addr = previous->first;
      size += previous->second;
      free_.erase(previous);
    }
  }
  if (next != free_.end() && addr + size == next->first) {
    size += next->second;
    free_.erase(next);
  }
  free_.emplace(addr, size);
  return ATALLA_OK;
}

}  // namespace atalla::sim
