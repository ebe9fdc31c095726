// SPDX-License-Identifier: BSD-3-Clause
//
// The paths that every allocation takes: find, split, free, merge.
#include "runtime/memory/allocator_state.h"

#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include "runtime/device/error.h"
#include "runtime/stream/stream.h"

namespace atalla::runtime {

AllocatorState::AllocatorState(Device& device)
    : device_(device), table_(static_cast<uintptr_t>(device.properties().dram_base), device.properties().dram_bytes) {}

// The block keeps its first `size` bytes; the rest becomes a free block.
inline void AllocatorState::split(Block* block, size_t size) {
  Block* rest = store_.make();
  rest->addr = block->addr + size;
  rest->size = block->size - size;
  rest->pool = block->pool;
  rest->prev = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->prev = rest;
  block->next = rest;
  block->size = size;
  table_.set(rest->addr, rest);
  enter_pool(rest);
}

// Merges a free neighbour into a block that is in no pool.
inline void AllocatorState::absorb(Block* block, Block* neighbour) {
  leave_pool(neighbour);
  if (neighbour == block->next) {
    table_.set(neighbour->addr, nullptr);
    block->next = neighbour->next;
    if (block->next != nullptr) block->next->prev = block;
  } else {
    table_.set(block->addr, nullptr);
    table_.set(neighbour->addr, block);
    block->addr = neighbour->addr;
    block->prev = neighbour->prev;
    if (block->prev != nullptr) block->prev->next = block;
  }
  block->size += neighbour->size;
  store_.discard(neighbour);
}

void AllocatorState::put_back(Block* block) {
  if (memory_history() != nullptr || block->context != nullptr) [[unlikely]] {
    trace(TraceAction::kFreeCompleted, block->addr, block->size, block->pool, block->context);
    block->context.reset();
  }
  decrease(stats_.active, *block->pool, 1);
  decrease(stats_.active_bytes, *block->pool, static_cast<int64_t>(block->size));
  if (block->pool->kind != PoolKind::kSmall) return merge(block);
  if (Block* before = std::exchange(latest_, block)) merge(before);
}

void AllocatorState::merge(Block* block) {
  const auto in_pool = [&](const Block* other) { return other != nullptr && other->is_free() && other != latest_; };
  if (in_pool(block->next)) absorb(block, block->next);
  if (in_pool(block->prev)) absorb(block, block->prev);
  enter_pool(block);
}

[[gnu::always_inline]] inline Block* AllocatorState::take_block(size_t bytes, Stream& stream,
                                                                const MemoryContext& context) {
  const AllocatorConfig& config = allocator_config();
  if (bytes > device_.properties().dram_bytes) [[unlikely]]
    out_of_memory(bytes, context);  // and rounding cannot overflow
  if (!pending_.empty()) reclaim_finished();
  const size_t size = block_bytes(bytes, config);
  Pool& asked = pool_of(size <= kSmallSize ? PoolKind::kSmall : PoolKind::kLarge, stream);
  Block* block = nullptr;
  if (latest_ != nullptr && latest_->size == size && latest_->pool == &asked && config.caching) {
    block = std::exchange(latest_, nullptr);
  } else {
    merge_latest();
    block = config.caching ? asked.best_fit(size, config) : nullptr;
    if (block != nullptr) [[likely]] {
      leave_pool(block);
    } else {
      block = take_new_block(size, asked, bytes, context);
    }
  }
  const Pool& pool = *block->pool;  // another one if it came from the last resort
  if (config.caching && pool.worth_splitting(size, block->size - size, config)) split(block, size);
  block->allocated = true;
  block->requested = bytes;
  increase(stats_.allocation, pool, 1);
  increase(stats_.allocated_bytes, pool, static_cast<int64_t>(block->size));
  increase(stats_.requested_bytes, pool, static_cast<int64_t>(bytes));
  increase(stats_.active, pool, 1);
  increase(stats_.active_bytes, pool, static_cast<int64_t>(block->size));
  if (block->size >= config.max_split_size) [[unlikely]] {
    block->oversize = true;
    stats_.oversize_allocations.increase(1);
  }
  return block;
}

void* AllocatorState::allocate(size_t bytes, Stream& stream) {
  if (bytes == 0) return nullptr;
  if (&stream.device() != &device_) {
    throw Error(ATALLA_ERR_ARGUMENT, "memory of device " + std::to_string(device_.ordinal()) +
                                         " was requested for a stream of device " +
                                         std::to_string(stream.device().ordinal()));
  }
  if (const HistorySettings* history = memory_history()) [[unlikely]]
    return allocate_recorded(bytes, stream, *history);
  std::lock_guard guard(lock_);
  return reinterpret_cast<void*>(take_block(bytes, stream, nullptr)->addr);
}

void* AllocatorState::allocate_recorded(size_t bytes, Stream& stream, const HistorySettings& history) {
  MemoryContext context = history.context(ContextLevel::kState);
  std::lock_guard guard(lock_);
  Block* block = take_block(bytes, stream, context);
  trace(TraceAction::kAlloc, block->addr, block->size, block->pool, context);
  block->context = std::move(context);
  return reinterpret_cast<void*>(block->addr);
}

[[gnu::always_inline]] inline void AllocatorState::free_block(void* ptr, const MemoryContext& context) noexcept {
  Block* block = table_.find(reinterpret_cast<uintptr_t>(ptr));
  if (block == nullptr || !block->allocated) [[unlikely]] {
    std::fprintf(stderr, "atalla: free of %p on device %d, which is not an allocation (ignored)\n", ptr,
                 device_.ordinal());
    return;
  }
  block->allocated = false;
  decrease(stats_.allocation, *block->pool, 1);
  decrease(stats_.allocated_bytes, *block->pool, static_cast<int64_t>(block->size));
  decrease(stats_.requested_bytes, *block->pool, static_cast<int64_t>(block->requested));
  if (block->oversize) [[unlikely]] {
    block->oversize = false;
    stats_.oversize_allocations.decrease(1);
  }
  block->requested = 0;
  trace_block(TraceAction::kFreeRequested, block, context != nullptr ? context : block->context);
  if (!block->users.empty()) [[unlikely]]
    return defer_free(block);
  put_back(block);
}

void AllocatorState::free(void* ptr) noexcept {
  if (ptr == nullptr) return;
  const HistorySettings* history = memory_history();
  if (history != nullptr || !allocator_config().caching) [[unlikely]]
    return free_slowly(ptr, history);
  std::lock_guard guard(lock_);
  free_block(ptr, nullptr);
}

void AllocatorState::free_slowly(void* ptr, const HistorySettings* history) noexcept {
  {
    const MemoryContext context = history != nullptr ? history->context(ContextLevel::kAll) : nullptr;
    std::lock_guard guard(lock_);
    free_block(ptr, context);
  }
  if (allocator_config().caching) return;
  try {
    empty_cache({});
  } catch (const std::exception& error) {  // it stays cached
    std::fprintf(stderr, "atalla: device %d: %s\n", device_.ordinal(), error.what());
  }
}

void AllocatorState::record_stream(void* ptr, Stream& stream) {
  std::lock_guard guard(lock_);
  Block* block = block_of(ptr);
  if (block->pool->stream == &stream) return;
  for (const Stream* user : block->users) {
    if (user == &stream) return;
  }
  block->users.push_back(&stream);
}

void AllocatorState::defer_free(Block* block) {
  if (captures_ > 0) {
    block->deferred = true;
    deferred_.push_back(block);
    return;
  }
  const std::vector<Stream*> users = std::exchange(block->users, {});
  block->pending_events = static_cast<uint32_t>(users.size());  // not free, whatever others do meanwhile
  std::vector<PendingFree> recorded;
  {
    Unlocked unlocked(lock_);  // a stream whose queue is full makes the recording wait
    for (Stream* user : users) {
      try {
        Event event(user->device());
        event.record(*user);
        recorded.push_back({std::move(event), block});
      } catch (const std::exception&) {
        // No event can be had, or the stream has a fault: wait here instead.
        try {
          user->drain();
        } catch (const std::exception&) {  // a device that cannot even be waited for runs nothing
        }
      }
    }
  }
  block->pending_events = static_cast<uint32_t>(recorded.size());
  for (PendingFree& entry : recorded) pending_.push_back(std::move(entry));
  if (recorded.empty()) put_back(block);
}

void AllocatorState::reclaim_finished() noexcept {
  for (size_t i = 0; i < pending_.size();) {
    bool done = true;
    try {
      done = pending_[i].event.query();
    } catch (const std::exception&) {  // a stream with a fault runs nothing
    }
    if (!done) {
      ++i;
      continue;
    }
    Block* block = pending_[i].block;
    std::swap(pending_[i], pending_.back());
    pending_.pop_back();
    if (--block->pending_events == 0) put_back(block);
  }
}

Block* AllocatorState::block_of(const void* ptr) const {
  Block* block = table_.find(reinterpret_cast<uintptr_t>(ptr));
  if (block == nullptr || !block->allocated) {
    throw Error(ATALLA_ERR_ARGUMENT, "address " + std::to_string(reinterpret_cast<uintptr_t>(ptr)) +
                                         " is not an allocation of device " + std::to_string(device_.ordinal()));
  }
  return block;
}

}  // namespace atalla::runtime
