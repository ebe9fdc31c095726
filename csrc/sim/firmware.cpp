// SPDX-License-Identifier: BSD-3-Clause
#include "firmware.h"

#include <bit>
#include <cinttypes>

#include "error.h"

namespace atalla::sim {

void ScratchpadAllocator::reset(uint32_t count, uint64_t bytes, uint32_t granularity) {
  const std::lock_guard lock(mutex_);
  pads_.assign(count, Pad{});
  for (Pad& pad : pads_) pad.free_bytes = bytes;
  pad_bytes_ = bytes;
  granularity_ = granularity;
}

// First fit into the gaps between the pages in use.
bool ScratchpadAllocator::take(Pad& pad, uint64_t bytes, uint64_t align, uint32_t* addr) {
  uint64_t candidate = 0;
  for (const auto& [start, length] : pad.used) {
    if (candidate + bytes <= start) break;
    candidate = (start + uint64_t{length} + align - 1) & ~(align - 1);
  }
  if (candidate > pad_bytes_ || bytes > pad_bytes_ - candidate) return false;
  *addr = static_cast<uint32_t>(candidate);
  pad.used.emplace(*addr, static_cast<uint32_t>(bytes));
  pad.free_bytes -= bytes;
  return true;
}

atalla_status ScratchpadAllocator::allocate(uint64_t bytes, uint64_t align, uint32_t* sid, uint32_t* addr) {
  const std::lock_guard lock(mutex_);
  if (bytes == 0) return set_error(ATALLA_ERR_ARGUMENT, "scpad_alloc of 0 bytes; expected at least 1");
  if (align == 0) align = granularity_;
  if (!std::has_single_bit(align) || align < granularity_) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "scpad_alloc alignment is %" PRIu64 "; expected a power of two of at least %u, or 0", align,
                     granularity_);
  }
  uint64_t largest_free = 0;
  if (bytes <= pad_bytes_ && align <= pad_bytes_) {
    const uint64_t size = (bytes + granularity_ - 1) & ~uint64_t{granularity_ - 1};
    uint32_t best = 0;
    for (uint32_t i = 1; i < pads_.size(); ++i) {
      if (pads_[i].free_bytes > pads_[best].free_bytes) best = i;
    }
    for (uint32_t n = 0; n < pads_.size(); ++n) {
      const uint32_t i = (best + n) % static_cast<uint32_t>(pads_.size());
      if (take(pads_[i], size, align, addr)) {
        *sid = i;
        return ATALLA_OK;
      }
    }
  }
  for (const Pad& pad : pads_) largest_free = pad.free_bytes > largest_free ? pad.free_bytes : largest_free;
  return set_error(ATALLA_ERR_SCRATCHPAD,
                   "no scratchpad has %" PRIu64 " bytes at alignment %" PRIu64 " free: %zu scratchpads of %" PRIu64
                   " bytes, the emptiest has %" PRIu64 " free",
                   bytes, align, pads_.size(), pad_bytes_, largest_free);
}

atalla_status ScratchpadAllocator::free(uint32_t sid, uint32_t addr) {
  const std::lock_guard lock(mutex_);
  if (sid >= pads_.size()) {
    return set_error(ATALLA_ERR_ARGUMENT, "scpad_free on scratchpad %u; expected one below %zu", sid, pads_.size());
  }
  Pad& pad = pads_[sid];
  const auto found = pad.used.find(addr);
  if (found == pad.used.end()) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "scpad_free of 0x%x on scratchpad %u, which is not the start of a page in use (freed twice?)",
                     addr, sid);
  }
  pad.free_bytes += found->second;
  pad.used.erase(found);
  return ATALLA_OK;
}

}  // namespace atalla::sim
