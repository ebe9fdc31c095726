// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "address_table.h"
#include "allocator_stats.h"
#include "block.h"
#include "device.h"
#include "event.h"
#include "pool.h"
#include "spin_lock.h"

namespace atalla::runtime {

// The caching allocator behind its interface. Public members lock; private ones are called with the lock held.
class AllocatorState {
 public:
  explicit AllocatorState(Device& device);

  void* allocate(size_t bytes, Stream& stream);
  void free(void* ptr) noexcept;
  void record_stream(void* ptr, Stream& stream);
  void empty_cache();
  size_t allocation_bytes(const void* ptr) const;
  void* allocation_base(const void* ptr, size_t* bytes) const;
  void set_limit(size_t bytes);
  Stats stats() const;
  void reset_peak_stats();
  void reset_accumulated_stats();
  std::vector<SegmentInfo> snapshot() const;

 private:
  struct PoolPair {
    Pool small, large;
    explicit PoolPair(Stream* stream) : small(PoolKind::kSmall, stream), large(PoolKind::kLarge, stream) {}
  };
  // A freed block that another stream may still use.
  struct PendingFree {
    Event event;
    Block* block;
  };

  Pool& pool_of(size_t size, Stream& stream);
  Block* take_new_block(size_t size, Pool& pool, size_t requested);  // the slow path
  Block* new_segment(size_t segment_bytes, Pool& pool);              // null if DRAM (or the limit) is exhausted
  void release_free_segments();
  void wait_for_streams();
  [[noreturn]] void out_of_memory(size_t requested);

  void split(Block* block, size_t size);
  void put_back(Block* block);  // merges with free neighbours
  void absorb(Block* block, Block* neighbour);
  void defer_free(Block* block);
  void reclaim_finished() noexcept;  // blocks whose other streams are done
  void enter_pool(Block* block);
  void leave_pool(Block* block) noexcept;
  Block* block_of(const void* ptr) const;  // held by the caller; throws Error for a foreign pointer

  static void increase(StatArray& stat, const Pool& pool, int64_t amount) noexcept {
    stat[0].increase(amount);
    stat[static_cast<size_t>(pool.kind)].increase(amount);
  }
  static void decrease(StatArray& stat, const Pool& pool, int64_t amount) noexcept {
    stat[0].decrease(amount);
    stat[static_cast<size_t>(pool.kind)].decrease(amount);
  }

  Device& device_;
  mutable SpinLock lock_;
  AddressTable table_;
  BlockStore store_;
  std::array<std::unique_ptr<PoolPair>, kMaxStreams> pools_;  // by stream id
  std::map<uintptr_t, size_t> segments_;                      // address, bytes
  std::vector<PendingFree> pending_;
  size_t limit_ = 0;
  Stats stats_;
};

}  // namespace atalla::runtime
