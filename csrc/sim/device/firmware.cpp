// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/firmware.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "sim/abi/error.h"

namespace atalla::sim {

namespace {

// Returns who holds the page, and how to release it.
std::string holder(PageOwner page, PageOwner wanted) {
  if (page.kind == PageOwner::kHost) return "the host (scpad_alloc; scpad_free releases it)";
  if (page == wanted) return "the program itself";
  if (page.machine == 0) return "a launch that runs";
  return "the stopped program of machine " + std::to_string(page.machine) +
         " (running it to its end, or destroying the machine, releases it)";
}

}  // namespace

void ScratchpadAllocator::reset(uint32_t count, uint64_t bytes, uint32_t granularity) {
  const std::lock_guard lock(mutex_);
  pads_.assign(count, Pad{});
  pad_bytes_ = bytes;
  granularity_ = granularity;
}

// First fit into the gaps between the pages in use.
bool ScratchpadAllocator::take(Pad& pad, uint64_t bytes, uint64_t align, PageOwner owner, uint32_t* addr) {
  uint64_t candidate = 0;
  for (const auto& [start, page] : pad) {
    if (candidate + bytes <= start) break;
    candidate = std::max(candidate, (start + uint64_t{page.bytes} + align - 1) & ~(align - 1));
  }
  if (candidate > pad_bytes_ || bytes > pad_bytes_ - candidate) return false;
  *addr = static_cast<uint32_t>(candidate);
  pad.emplace(*addr, Page{static_cast<uint32_t>(bytes), owner});
  return true;
}

uint64_t ScratchpadAllocator::free_bytes(const Pad& pad) const {
  uint64_t used = 0;
  for (const auto& [start, page] : pad) used += page.bytes;
  return pad_bytes_ - std::min(used, pad_bytes_);
}

atalla_status ScratchpadAllocator::allocate(uint64_t bytes, uint64_t align, PageOwner owner, uint32_t* sid,
                                            uint32_t* addr) {
  const std::lock_guard lock(mutex_);
  if (bytes == 0) return set_error(ATALLA_ERR_ARGUMENT, "scpad_alloc of 0 bytes; expected at least 1");
  if (align == 0) align = granularity_;
  if (!std::has_single_bit(align) || align < granularity_) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "scpad_alloc alignment is %" PRIu64 "; expected a power of two of at least %u, or 0", align,
                     granularity_);
  }
  if (bytes <= pad_bytes_ && align <= pad_bytes_) {
    const uint64_t size = (bytes + granularity_ - 1) & ~uint64_t{granularity_ - 1};
    uint32_t best = 0;
    for (uint32_t i = 1; i < pads_.size(); ++i) {
      if (free_bytes(pads_[i]) > free_bytes(pads_[best])) best = i;
    }
    for (uint32_t n = 0; n < pads_.size(); ++n) {
      const uint32_t i = (best + n) % static_cast<uint32_t>(pads_.size());
      if (take(pads_[i], size, align, owner, addr)) {
        *sid = i;
        return ATALLA_OK;
      }
    }
  }
  return no_room(bytes, align, owner);
}

atalla_status ScratchpadAllocator::no_room(uint64_t bytes, uint64_t align, PageOwner owner) const {
  constexpr int kListed = 4;
  std::string pages;
  int found = 0;
  for (size_t sid = 0; sid < pads_.size(); ++sid) {
    for (const auto& [start, page] : pads_[sid]) {
      if (++found > kListed) continue;
      char place[96];
      snprintf(place, sizeof place, "%s %u bytes at 0x%x of scratchpad %zu, held by ", found == 1 ? "" : ";",
               page.bytes, start, sid);
      pages += place + holder(page.owner, owner);
    }
  }
  if (found > kListed) pages += "; and " + std::to_string(found - kListed) + " more pages";
  return set_error(ATALLA_ERR_SCRATCHPAD,
                   "no scratchpad has %" PRIu64 " bytes at alignment %" PRIu64 " free (%zu scratchpads of %" PRIu64
                   " bytes). In use:%s",
                   bytes, align, pads_.size(), pad_bytes_, found == 0 ? " nothing" : pages.c_str());
}

atalla_status ScratchpadAllocator::free(uint32_t sid, uint32_t addr, bool program) {
  const std::lock_guard lock(mutex_);
  if (sid >= pads_.size()) {
    return set_error(ATALLA_ERR_ARGUMENT, "scpad_free on scratchpad %u; expected one below %zu", sid, pads_.size());
  }
  Pad& pad = pads_[sid];
  const auto page = pad.find(addr);
  if (page != pad.end() && (page->second.owner.kind == PageOwner::kProgram) == program) {
    pad.erase(page);
    return ATALLA_OK;
  }
  return set_error(ATALLA_ERR_ARGUMENT,
                   "scpad_free of 0x%x on scratchpad %u, which is not the start of a page in use (freed twice?)", addr,
                   sid);
}

}  // namespace atalla::sim
