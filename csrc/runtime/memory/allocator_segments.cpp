// SPDX-License-Identifier: BSD-3-Clause
//
// The slow path of the caching allocator: DRAM from the device and back, and what to do when there is none.
//
// Nobody waits for the device with the lock held: work that is waited for may itself need the allocator. So segments
// are first detached, where no allocation finds them, and given back after the wait.
#include <algorithm>
#include <string>
#include <utility>

#include "runtime/device/api.h"
#include "runtime/device/error.h"
#include "runtime/memory/allocator_oom.h"
#include "runtime/memory/allocator_state.h"
#include "runtime/stream/stream.h"

namespace atalla::runtime {
namespace {

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t segment_bytes(size_t size) {
  if (size <= kSmallSize) return kSmallSegment;
  if (size < kMinLargeRequest) return std::max(allocator_config().large_segment, round_up(size, kLargeRounding));
  return round_up(size, kLargeRounding);
}

}  // namespace

Block* AllocatorState::take_new_block(size_t size, Pool& pool, size_t requested, const MemoryContext& context) {
  struct Hold {  // others may release the pool while the lock is not held
    PrivatePool* pool;
    explicit Hold(PrivatePool* held) : pool(held) {
      if (pool != nullptr) ++pool->busy;
    }
    ~Hold() {
      if (pool != nullptr) --pool->busy;
    }
  } hold(pool.owner);
  if (allocator_config().garbage_collection_threshold > 0 && limit_ != 0) [[unlikely]]
    collect_garbage(size);
  if (Block* block = new_segment(size, false, pool, context)) return block;
  // The cache may hold enough, in other sizes or for other streams.
  ++stats_.num_alloc_retries;
  std::unique_lock slow(slow_mutex_, std::defer_lock);  // let go while lock_ is still held: the block is in no pool
  {
    Unlocked unlocked(lock_);
    slow.lock();
  }
  finish_pending();
  merge_latest();
  if (Block* block = allocator_config().caching ? pool.best_fit(size, allocator_config()) : nullptr) {
    leave_pool(block);
    return block;
  }
  give_back(detach_free_segments({}));
  if (Block* block = new_segment(size, false, pool, context)) return block;
  // A segment of the usual size does not fit; one for this request alone may.
  if (Block* block = new_segment(size, true, pool, context)) return block;
  if (Block* block = take_from_last_resort(size, pool)) return block;
  slow.unlock();  // an observer may empty the cache
  out_of_memory(requested, context);
}

Block* AllocatorState::new_segment(size_t size, bool exactly, Pool& pool, const MemoryContext& context) {
  const size_t bytes = exactly || pool.no_split || !allocator_config().caching ? size : segment_bytes(size);
  if (limit_ != 0 && static_cast<uint64_t>(stats_.reserved_bytes[0].current) + bytes > limit_) return nullptr;
  atalla_addr addr = 0;
  const atalla_status status = api().mem_alloc(device_.handle(), bytes, kBlockAlign, &addr);
  if (status == ATALLA_ERR_OUT_OF_MEMORY) return nullptr;
  check(status);
  Block* block = store_.make();
  block->addr = static_cast<uintptr_t>(addr);
  block->size = bytes;
  block->pool = &pool;
  table_.set(block->addr, block);
  segments_.emplace(block->addr, Segment{bytes, context});
  count_segment(pool, bytes, true);
  if (memory_history() != nullptr) [[unlikely]]
    trace(TraceAction::kSegmentAlloc, block->addr, bytes, &pool, context);
  return block;
}

void AllocatorState::count_segment(const Pool& pool, size_t bytes, bool made) {
  const auto change = [&](StatArray& stat, int64_t amount) {
    made ? increase(stat, pool, amount) : decrease(stat, pool, amount);
  };
  ++(made ? stats_.num_device_alloc : stats_.num_device_free);
  change(stats_.segment, 1);
  change(stats_.reserved_bytes, static_cast<int64_t>(bytes));
  if (bytes >= allocator_config().max_split_size)
    made ? stats_.oversize_segments.increase(1) : stats_.oversize_segments.decrease(1);
  if (pool.owner == nullptr) return;
  change(stats_.reserved_bytes_by_private_pools[pool.owner->id], static_cast<int64_t>(bytes));
  made ? ++pool.owner->segments : --pool.owner->segments;
}

// A free block of a pool that lends its memory in need.
Block* AllocatorState::take_from_last_resort(size_t size, const Pool& pool) {
  merge_latest();
  for (const auto& [id, candidate] : private_pools_) {
    if (!candidate->options.use_on_oom || candidate.get() == pool.owner) continue;
    Pool* lender = candidate->pools.find(pool.kind, static_cast<size_t>(pool.stream->id()));
    if (lender == nullptr) continue;
    if (Block* block = lender->best_fit(size, allocator_config())) {
      leave_pool(block);
      return block;
    }
  }
  return nullptr;
}

// Gives back large segments that have long been unused, as long as more is reserved than the threshold allows.
void AllocatorState::collect_garbage(size_t wanted) {
  const double allowed = allocator_config().garbage_collection_threshold * static_cast<double>(limit_);
  const double reserved = static_cast<double>(stats_.reserved_bytes[0].current) + static_cast<double>(wanted);
  if (reserved <= allowed) return;
  std::vector<std::pair<uint64_t, Block*>> unused;  // age in requests to the block's pool
  default_pools_.each_large([&](Pool& pool) {
    for (Block* block : pool.large.all())
      if (!block->is_split()) unused.emplace_back(pool.requests - block->freed_at, block);
  });
  std::sort(unused.begin(), unused.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<atalla_addr> segments;
  double excess = reserved - allowed;
  for (const auto& [age, block] : unused) {
    if (excess <= 0) break;
    excess -= static_cast<double>(block->size);
    segments.push_back(block->addr);
    detach_segment(block);
  }
  if (!segments.empty()) give_back(segments);
}

void AllocatorState::finish_pending() {
  ++stats_.num_sync_all_streams;
  std::vector<PendingFree> waited = std::exchange(pending_, {});
  try {
    Unlocked unlocked(lock_);
    device_.drain();
    for (const PendingFree& entry : waited) {  // streams of other devices
      try {
        entry.event.synchronize();
      } catch (const std::exception&) {  // a stream with a fault runs nothing
      }
    }
  } catch (...) {
    for (PendingFree& entry : waited) pending_.push_back(std::move(entry));
    throw;
  }
  for (const PendingFree& entry : waited)
    if (--entry.block->pending_events == 0) put_back(entry.block);
  reclaim_finished();
}

void AllocatorState::detach_segment(Block* block) {
  Pool& pool = *block->pool;
  leave_pool(block);
  table_.set(block->addr, nullptr);
  const auto segment = segments_.find(block->addr);
  if (memory_history() != nullptr) [[unlikely]]
    trace(TraceAction::kSegmentFree, block->addr, block->size, &pool, segment->second.context);
  segments_.erase(segment);
  count_segment(pool, block->size, false);
  store_.discard(block);
}

std::vector<atalla_addr> AllocatorState::detach_free_segments(PoolId only) {
  merge_latest();
  std::vector<atalla_addr> detached;
  for (auto it = segments_.begin(); it != segments_.end();) {
    Block* block = table_.find(it->first);
    ++it;
    const PrivatePool* owner = block->pool->owner;
    if (!block->is_free() || block->is_split()) continue;
    const bool other = only != PoolId{} && (owner == nullptr || owner->id != only);
    if (other || (owner != nullptr && owner->users > 0)) continue;
    detached.push_back(block->addr);
    detach_segment(block);
  }
  for (auto it = private_pools_.begin(); it != private_pools_.end();) drop_if_unused((it++)->second.get());
  return detached;
}

// The segments were free when they were detached: what still uses them is already queued.
void AllocatorState::give_back(const std::vector<atalla_addr>& segments) {
  if (segments.empty()) return;
  Unlocked unlocked(lock_);
  device_.drain();
  for (const atalla_addr addr : segments) check(api().mem_free(device_.handle(), addr));
}

void AllocatorState::empty_cache(PoolId only) {
  std::lock_guard slow(slow_mutex_);
  std::lock_guard guard(lock_);
  finish_pending();
  give_back(detach_free_segments(only));
}

void AllocatorState::out_of_memory(size_t requested, const MemoryContext& context) {
  ++stats_.num_ooms;
  OutOfMemory::Numbers numbers;
  numbers.device = device_.ordinal();
  numbers.requested = requested;
  numbers.total = device_.properties().dram_bytes;
  (void)api().mem_info(device_.handle(), &numbers.free, &numbers.total);
  numbers.allocated = static_cast<uint64_t>(stats_.allocated_bytes[0].current);
  numbers.reserved = static_cast<uint64_t>(stats_.reserved_bytes[0].current);
  numbers.limit = limit_;
  if (memory_history() != nullptr) [[unlikely]]
    trace(TraceAction::kOom, numbers.free, requested, nullptr, context);
  {
    Unlocked unlocked(lock_);
    tell_oom_observers(numbers);
  }
  throw OutOfMemory(numbers);
}

}  // namespace atalla::runtime
