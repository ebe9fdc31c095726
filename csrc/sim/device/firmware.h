// SPDX-License-Identifier: BSD-3-Clause
//
// Firmware services of the chip. The scratchpads are handed out at run time by an allocator in firmware, not by the
// compiler: kernels ask for pages and give them back.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "sim/abi/atalla.h"

namespace atalla::sim {

// The owner of a page.
struct PageOwner {
  enum Kind : uint8_t { kHost, kProgram } kind;
  uint64_t machine = 0;  // of a program that a machine runs: the machine's handle; 0: of a launch
  bool operator==(const PageOwner&) const = default;
};

class ScratchpadAllocator {
 public:
  // `count` scratchpads of `bytes` each; `granularity`, a power of two, is one scratchpad row (64 bytes).
  void reset(uint32_t count, uint64_t bytes, uint32_t granularity);

  // Takes `bytes` (> 0, rounded up to rows) at a multiple of `align` (0: one row; else a power of two of at least one
  // row) from the scratchpad with the most free bytes, the lower one of equals, so that pages of one kernel spread
  // over both. When it does not fit there, the others are tried. ATALLA_ERR_SCRATCHPAD, which lists the pages in the
  // way with their owners, when none has room.
  atalla_status allocate(uint64_t bytes, uint64_t align, PageOwner owner, uint32_t* sid, uint32_t* addr);

  // Of a program's page or of one of the others. ATALLA_ERR_ARGUMENT for a scratchpad that does not exist, an address
  // that was not handed out, a double free.
  atalla_status free(uint32_t sid, uint32_t addr, bool program);

 private:
  struct Page {
    uint32_t bytes;
    PageOwner owner;
  };
  using Pad = std::map<uint32_t, Page>;  // by start
  bool take(Pad& pad, uint64_t bytes, uint64_t align, PageOwner owner, uint32_t* addr);
  uint64_t free_bytes(const Pad& pad) const;
  atalla_status no_room(uint64_t bytes, uint64_t align, PageOwner owner) const;

  std::mutex mutex_;
  std::vector<Pad> pads_;
  uint64_t pad_bytes_ = 0;
  uint32_t granularity_ = 64;
};

}  // namespace atalla::sim
