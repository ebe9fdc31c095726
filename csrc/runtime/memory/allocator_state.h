// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/memory/address_table.h"
#include "runtime/memory/allocator.h"
#include "runtime/memory/allocator_stats.h"
#include "runtime/memory/block.h"
#include "runtime/memory/pool.h"
#include "runtime/stream/event.h"
#include "runtime/stream/spin_lock.h"

namespace atalla::runtime {

// Memory that only the allocations routed to it use. Its segments go back to the device when nobody uses the pool any
// more; until then their addresses are kept, since a graph may replay work on them.
struct PrivatePool {
  PoolId id;
  PoolOptions options;
  int users = 0;
  int busy = 0;  // allocations that are waiting for memory
  size_t segments = 0;
  PoolSet pools;

  PrivatePool(PoolId id_, PoolOptions options_) : id(id_), options(options_), pools(this, options_.no_split) {}
};

// Sends allocations to a private pool.
struct Route {
  PrivatePool* pool;
  bool capture;            // frees with record_stream wait for its end: no event can be recorded on a capturing stream
  std::thread::id thread;  // that began it
  std::function<bool(const Stream&)> takes;  // by the allocation's stream; null: all allocations of the thread
};

// The implementation of the caching allocator. Public members lock; private ones are called with lock_ held, and those
// that wait for the device let it go meanwhile.
class AllocatorState final : public CachingAllocator {
 public:
  explicit AllocatorState(Device& device);

  void* allocate(size_t bytes, Stream& stream) override;
  void free(void* ptr) noexcept override;
  void record_stream(void* ptr, Stream& stream) override;
  void empty_cache(PoolId only) override;
  size_t allocation_bytes(const void* ptr) const override;
  void* allocation_base(const void* ptr, size_t* bytes) const override;
  MemoryContext allocation_context(const void* ptr) const override;
  void set_limit(size_t bytes) override;
  size_t limit() const override;

  Stats stats() override;
  void reset_peak_stats() override;
  void reset_accumulated_stats() override;
  Snapshot snapshot(PoolId only, bool with_trace) override;
  void clear_trace() override;

  void create_pool(PoolId id, PoolOptions options) override;
  void begin_allocate_to_pool(PoolId id, std::function<bool(const Stream&)> takes) override;
  void end_allocate_to_pool(PoolId id) override;
  void release_pool(PoolId id) override;
  int pool_users(PoolId id) const override;

 private:
  // A freed block that another stream may still use.
  struct PendingFree {
    Event event;
    Block* block;
  };
  struct Segment {
    size_t bytes;
    MemoryContext context;
  };

  Pool& pool_of(PoolKind kind, Stream& stream) {
    PoolSet& pools = routes_.empty() ? default_pools_ : routed(stream);
    return pools.get(kind, static_cast<size_t>(stream.id()), &stream);
  }
  PoolSet& routed(const Stream& stream);
  PrivatePool& private_pool(PoolId id) const;  // throws Error for an unknown one
  void drop_if_unused(PrivatePool* pool);

  // The slow path. Lets go of lock_ while it waits.
  Block* take_new_block(size_t size, Pool& pool, size_t requested, const MemoryContext& context);
  Block* new_segment(size_t size, bool exactly, Pool& pool, const MemoryContext& context);  // null: no room
  Block* take_from_last_resort(size_t size, const Pool& pool);
  void collect_garbage(size_t wanted);
  void finish_pending();  // waits for the streams, then takes back what other streams had used
  std::vector<atalla_addr> detach_free_segments(PoolId only);
  void detach_segment(Block* block);
  void give_back(const std::vector<atalla_addr>& segments);  // waits for the streams first
  [[noreturn]] void out_of_memory(size_t requested, const MemoryContext& context);

  void* allocate_recorded(size_t bytes, Stream& stream, const HistorySettings& history);  // locks
  void free_slowly(void* ptr, const HistorySettings* history) noexcept;                   // locks
  Block* take_block(size_t bytes, Stream& stream, const MemoryContext& context);
  void free_block(void* ptr, const MemoryContext& context) noexcept;
  void split(Block* block, size_t size);
  void put_back(Block* block);
  void merge(Block* block);  // with free neighbours, into the pool
  void merge_latest() {
    if (latest_ != nullptr) merge(std::exchange(latest_, nullptr));
  }
  void absorb(Block* block, Block* neighbour);
  void defer_free(Block* block);     // lets go of lock_ while it records events
  void reclaim_finished() noexcept;  // blocks whose other streams are done
  void enter_pool(Block* block) {
    block->pool->insert(block);
    if (block->is_split()) {
      increase(stats_.inactive_split, *block->pool, 1);
      increase(stats_.inactive_split_bytes, *block->pool, static_cast<int64_t>(block->size));
    }
  }
  void leave_pool(Block* block) noexcept {
    block->pool->remove(block);
    if (block->is_split()) {
      decrease(stats_.inactive_split, *block->pool, 1);
      decrease(stats_.inactive_split_bytes, *block->pool, static_cast<int64_t>(block->size));
    }
  }
  Block* block_of(const void* ptr) const;  // held by the caller; throws Error for a foreign pointer
  void trace(TraceAction action, uint64_t addr, size_t bytes, const Pool* pool, const MemoryContext& context);
  void trace_block(TraceAction action, const Block* block, const MemoryContext& context) {
    if (memory_history() != nullptr) [[unlikely]]
      trace(action, block->addr, block->size, block->pool, context);
  }

  static void increase(StatArray& stat, const Pool& pool, int64_t amount) noexcept {
    stat[0].increase(amount);
    stat[static_cast<size_t>(pool.kind)].increase(amount);
  }
  static void decrease(StatArray& stat, const Pool& pool, int64_t amount) noexcept {
    stat[0].decrease(amount);
    stat[static_cast<size_t>(pool.kind)].decrease(amount);
  }
  void count_segment(const Pool& pool, size_t bytes, bool made);

  Device& device_;
  mutable SpinLock lock_;
  std::mutex slow_mutex_;  // held without lock_, by who empties the cache: a second one would find nothing to free
  AddressTable table_;
  BlockStore store_;
  PoolSet default_pools_{nullptr, false};
  std::map<PoolId, std::unique_ptr<PrivatePool>> private_pools_;
  std::vector<Route> routes_;              // the latest one decides
  int captures_ = 0;                       // routes of graphs
  std::vector<Block*> deferred_;           // freed during a capture
  std::map<uintptr_t, Segment> segments_;  // by address
  std::vector<PendingFree> pending_;
  // The small block that came back last, or null. It is in no pool yet, and merged only when that can matter: the next
  // request is often for as many bytes.
  Block* latest_ = nullptr;
  std::vector<TraceEntry> trace_;  // a ring when it is full
  size_t trace_next_ = 0;
  size_t limit_ = 0;
  Stats stats_;
};

}  // namespace atalla::runtime
