// SPDX-License-Identifier: BSD-3-Clause
//
// The DRAM of one device: one shared-memory file mapped twice. The device view has no access rights; its addresses are
// what tensors carry, so that host code which dereferences one faults at once. The engine view is what the chip uses.
#pragma once

#include <cstdint>

#include "sim/abi/atalla.h"

namespace atalla::sim {

class Dram {
 public:
  Dram() = default;
  ~Dram();
  Dram(const Dram&) = delete;
  Dram& operator=(const Dram&) = delete;

  // Reserves (and does not commit) `bytes`, rounded up to whole host pages. ATALLA_ERR_ARGUMENT for 0 or more than
  // 2^46 bytes, ATALLA_ERR_SYSTEM when the host refuses.
  atalla_status open(uint64_t bytes, int32_t ordinal);

  // Maps the DRAM of another process: the first `bytes` bytes of its file, or all of it for 0. The descriptor stays the
  // caller's. ATALLA_ERR_ARGUMENT for more bytes than the file has, ATALLA_ERR_SYSTEM when the host refuses.
  atalla_status attach(int fd, uint64_t bytes);
  // Gives the two views back; base() and size() go on telling where they were.
  void unmap();

  atalla_addr base() const { return base_; }
  uint64_t size() const { return size_; }
  int fd() const { return fd_; }

  // True when [addr, addr + bytes) lies inside; cannot overflow.
  bool contains(atalla_addr addr, uint64_t bytes) const {
    const uint64_t offset = addr - base_;  // wraps to a huge value below the base
    return offset <= size_ && bytes <= size_ - offset;
  }

  // True when it shares a byte with [addr, addr + bytes).
  bool meets(atalla_addr addr, uint64_t bytes) const {
    return addr - base_ < size_ || (addr < base_ && base_ - addr < bytes);
  }

  // Device address to engine pointer. The caller has checked contains().
  void* translate(atalla_addr addr) const { return engine_ + (addr - base_); }

  // Copies host memory into DRAM that no one has written yet, without a page fault for each page and without filling
  // pages with zeros first. False, and nothing is known of the bytes there, when some of it was written before or the
  // host refuses: then the caller copies. `to` points into the engine view and is in range.
  bool write_fresh(void* to, const void* from, uint64_t bytes) const;

  // Gives the host pages that lie wholly inside [addr, addr + bytes) back to the host; they read as zero afterwards.
  // Best effort: contents of freed DRAM are undefined anyway.
  void discard(atalla_addr addr, uint64_t bytes);

 private:
  atalla_status map(int fd, uint64_t size);

  atalla_addr base_ = 0;
  uint64_t size_ = 0;
  uint8_t* engine_ = nullptr;
  int fd_ = -1;  // -1: not ours
};

}  // namespace atalla::sim
