// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "runtime/c_api/export.h"
#include "runtime/memory/allocator_stats.h"
#include "runtime/memory/memory_history.h"
#include "runtime/memory/pool_id.h"

namespace atalla::runtime {

class Stream;

// Segments and blocks at one moment, and what led there (if it is recorded: see memory_history.h), oldest first.
struct Snapshot {
  std::vector<SegmentInfo> segments;
  std::vector<TraceEntry> trace;
};

// Caches DRAM of one device: segments are taken from the device and handed out in blocks.
//
// Requests are rounded up to 512 bytes. Up to 1 MiB they come from 2 MiB segments (the small pool), below 10 MiB from
// 20 MiB segments, above from segments of their own size rounded up to 2 MiB (the large pool). Best fit; a block is
// split when the rest is worth keeping, and merged with free neighbours when it comes back. Each stream has pools of
// its own, so that reuse needs no synchronisation: work of one stream is in order. set_allocator_config changes sizes.
//
// Private pools keep a graph's memory (or a user's) apart:
//
//   PoolId id = new_graph_pool_id();                       // or new_user_pool_id()
//   allocator.begin_allocate_to_pool(id, [&](const Stream& s) { return &s == &captured; });   // a user of the pool
//   ... allocations that the filter takes come from the pool, others from where they always do ...
//   allocator.end_allocate_to_pool(id);                    // the pool and its blocks stay
//   ... replays: free blocks of the pool serve nobody else ...
//   allocator.release_pool(id);                            // for each begin_... and create_pool; in any order with end
//
// A block of a private pool goes back to it whenever it is freed. Without users the pool is given back by
// empty_cache (and before the device is out of memory), as soon as its blocks are free. While a route with a filter is
// open (a capture), blocks that record_stream named for another stream come back only after its end.
//
// All members may be called from any thread.
class ATALLA_RUNTIME_API CachingAllocator {
 public:
  CachingAllocator() = default;
  virtual ~CachingAllocator() = default;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // A device address for `bytes` bytes, aligned to 512; nullptr for zero bytes. The memory is uninitialised. Throws
  // OutOfMemory after the cache has been emptied in vain.
  virtual void* allocate(size_t bytes, Stream& stream) = 0;
  // nullptr is ignored. A pointer that allocate did not give is reported on stderr and ignored.
  virtual void free(void* ptr) noexcept = 0;
  // `stream` uses the block too: after free it is reused only when the work queued on `stream` by then is done.
  virtual void record_stream(void* ptr, Stream& stream) = 0;
  // Gives segments without a block in use back to the device, after the work that is queued on its streams. With an id:
  // only those of this private pool, if nobody uses it.
  virtual void empty_cache(PoolId only = {}) = 0;
  // Bytes of the block (at least what was requested). Throws Error (ATALLA_ERR_ARGUMENT) for a foreign pointer.
  virtual size_t allocation_bytes(const void* ptr) const = 0;
  // The block that holds `ptr`, which may point into its middle: its first address; nullptr if there is none.
  virtual void* allocation_base(const void* ptr, size_t* bytes = nullptr) const = 0;
  // What was gathered when the block was allocated; null if nothing was, or for a foreign pointer.
  virtual MemoryContext allocation_context(const void* ptr) const = 0;
  // Upper bound of reserved bytes; 0: none. Beyond it allocate is out of memory.
  virtual void set_limit(size_t bytes) = 0;
  virtual size_t limit() const = 0;

  // Makes a private pool, or adds a user to it.
  virtual void create_pool(PoolId id, PoolOptions options = {}) = 0;
  // create_pool; then allocations go to the pool: those on streams that `takes` accepts (of any thread; called with
  // the allocator's lock held, so it must not allocate or wait), or without it those of the calling thread. Of several
  // that accept an allocation the latest one has it.
  virtual void begin_allocate_to_pool(PoolId id, std::function<bool(const Stream&)> takes = nullptr) = 0;
  // Throws Error (ATALLA_ERR_ARGUMENT) if it was not begun.
  virtual void end_allocate_to_pool(PoolId id) = 0;
  // One user less. Throws Error (ATALLA_ERR_ARGUMENT) for a pool without users.
  virtual void release_pool(PoolId id) = 0;
  virtual int pool_users(PoolId id) const = 0;  // 0 for an unknown one

  virtual Stats stats() = 0;
  virtual void reset_peak_stats() = 0;
  virtual void reset_accumulated_stats() = 0;
  // With an id: only segments of this private pool.
  virtual Snapshot snapshot(PoolId only = {}, bool with_trace = false) = 0;
  virtual void clear_trace() = 0;
};

}  // namespace atalla::runtime
