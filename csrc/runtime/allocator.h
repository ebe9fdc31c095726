// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "allocator_stats.h"
#include "export.h"

namespace atalla::runtime {

class AllocatorState;
class Device;
class Stream;

// Caches DRAM of one device: segments are taken from the device and handed out in blocks.
//
// Requests are rounded up to 512 bytes. Up to 1 MiB they come from 2 MiB segments (the small pool), below 10 MiB from
// 20 MiB segments, above from segments of their own size rounded up to 2 MiB (the large pool). Best fit; a block is
// split when the rest is worth keeping, and merged with free neighbours when it comes back. Each stream has pools of
// its own, so that reuse needs no synchronisation: work of one stream is in order.
//
// All members may be called from any thread.
class ATALLA_RUNTIME_API CachingAllocator {
 public:
  explicit CachingAllocator(Device& device);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // A device address for `bytes` bytes, aligned to 512; nullptr for zero bytes. The memory is uninitialised. Throws
  // Error (ATALLA_ERR_OUT_OF_MEMORY) after the cache has been emptied in vain.
  void* allocate(size_t bytes, Stream& stream);
  // nullptr is ignored. A pointer that allocate did not give is reported on stderr and ignored.
  void free(void* ptr) noexcept;
  // `stream` uses the block too: after free it is reused only when the work queued on `stream` by then is done.
  void record_stream(void* ptr, Stream& stream);
  // Gives segments without a block in use back to the device. Waits for the device's streams.
  void empty_cache();
  // Bytes of the block (at least what was requested). Throws Error (ATALLA_ERR_ARGUMENT) for a foreign pointer.
  size_t allocation_bytes(const void* ptr) const;
  // The block that holds `ptr`, which may point into its middle: its first address; nullptr if there is none.
  void* allocation_base(const void* ptr, size_t* bytes = nullptr) const;
  // Upper bound of reserved bytes; 0: none. Beyond it allocate is out of memory.
  void set_limit(size_t bytes);

  Stats stats() const;
  void reset_peak_stats();
  void reset_accumulated_stats();
  std::vector<SegmentInfo> snapshot() const;

 private:
  std::unique_ptr<AllocatorState> state_;
};

}  // namespace atalla::runtime
