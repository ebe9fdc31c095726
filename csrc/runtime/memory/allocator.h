// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/c_api/export.h"
#include "runtime/memory/allocator_stats.h"
#include "runtime/memory/memory_history.h"
#include "runtime/memory/pool_id.h"

namespace atalla::runtime {

class AllocatorState;
class Device;
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
  explicit CachingAllocator(Device& device);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // A device address for `bytes` bytes, aligned to 512; nullptr for zero bytes. The memory is uninitialised. Throws
  // OutOfMemory after the cache has been emptied in vain.
  void* allocate(size_t bytes, Stream& stream);
  // nullptr is ignored. A pointer that allocate did not give is reported on stderr and ignored.
  void free(void* ptr) noexcept;
  // `stream` uses the block too: after free it is reused only when the work queued on `stream` by then is done.
  void record_stream(void* ptr, Stream& stream);
  // Gives segments without a block in use back to the device, after the work that is queued on its streams. With an id:
  // only those of this private pool, if nobody uses it.
  void empty_cache(PoolId only = {});
  // Bytes of the block (at least what was requested). Throws Error (ATALLA_ERR_ARGUMENT) for a foreign pointer.
  size_t allocation_bytes(const void* ptr) const;
  // The block that holds `ptr`, which may point into its middle: its first address; nullptr if there is none.
  void* allocation_base(const void* ptr, size_t* bytes = nullptr) const;
  // What was gathered when the block was allocated; null if nothing was, or for a foreign pointer.
  MemoryContext allocation_context(const void* ptr) const;
  // Upper bound of reserved bytes; 0: none. Beyond it allocate is out of memory.
  void set_limit(size_t bytes);
  size_t limit() const;

  // Makes a private pool, or adds a user to it.
  void create_pool(PoolId id, PoolOptions options = {});
  // create_pool; then allocations go to the pool: those on streams that `takes` accepts (of any thread; called with
  // the allocator's lock held, so it must not allocate or wait), or without it those of the calling thread. Of several
  // that accept an allocation the latest one has it.
  void begin_allocate_to_pool(PoolId id, std::function<bool(const Stream&)> takes = nullptr);
  // Throws Error (ATALLA_ERR_ARGUMENT) if it was not begun.
  void end_allocate_to_pool(PoolId id);
  void release_pool(PoolId id);     // one user less. Throws Error (ATALLA_ERR_ARGUMENT) for a pool without users
  int pool_users(PoolId id) const;  // 0 for an unknown one

  Stats stats() const;
  void reset_peak_stats();
  void reset_accumulated_stats();
  // With an id: only segments of this private pool.
  Snapshot snapshot(PoolId only = {}, bool with_trace = false);
  void clear_trace();

 private:
  std::unique_ptr<AllocatorState> state_;
};

}  // namespace atalla::runtime
