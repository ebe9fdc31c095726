// SPDX-License-Identifier: BSD-3-Clause
//
// Firmware services of the chip. The scratchpads are handed out at run time by an allocator in firmware, not by the
// compiler: kernels ask for pages and give them back.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "atalla.h"

namespace atalla::sim {

class ScratchpadAllocator {
 public:
  // `count` scratchpads of `bytes` each; `granularity`, a power of two, is one scratchpad row (64 bytes).
  void reset(uint32_t count, uint64_t bytes, uint32_t granularity);

  // Takes `bytes` (> 0, rounded up to rows) at a multiple of `align` (0: one row; else a power of two of at least one
  // row) from the scratchpad with the most free bytes, the lower one of equals, so that pages of one kernel spread
  // over both. When it does not fit there, the others are tried. ATALLA_ERR_SCRATCHPAD when none has room.
  atalla_status allocate(uint64_t bytes, uint64_t align, uint32_t* sid, uint32_t* addr);

  // ATALLA_ERR_ARGUMENT for a scratchpad that does not exist, an address that was not handed out, a double free.
  atalla_status free(uint32_t sid, uint32_t addr);

 private:
  struct Pad {
    std::map<uint32_t, uint32_t> used;  // start -> bytes
    uint64_t free_bytes = 0;
  };
  bool take(Pad& pad, uint64_t bytes, uint64_t align, uint32_t* addr);

  std::mutex mutex_;
  std::vector<Pad> pads_;
  uint64_t pad_bytes_ = 0;
  uint32_t granularity_ = 64;
};

}  // namespace atalla::sim
