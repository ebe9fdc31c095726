// SPDX-License-Identifier: BSD-3-Clause
//
// The paths that every allocation takes: find, split, free, merge.
#include "allocator_state.h"

#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include "error.h"
#include "stream.h"

namespace atalla::runtime {

AllocatorState::AllocatorState(Device& device)
    : device_(device), table_(static_cast<uintptr_t>(device.properties().dram_base), device.properties().dram_bytes) {}

Pool& AllocatorState::pool_of(size_t size, Stream& stream) {
  auto& pair = pools_[stream.id()];
  if (pair == nullptr) [[unlikely]]
    pair = std::make_unique<PoolPair>(&stream);
  return size <= kSmallSize ? pair->small : pair->large;
}

void* AllocatorState::allocate(size_t bytes, Stream& stream) {
  if (bytes == 0) return nullptr;
  if (&stream.device() != &device_) {
    throw Error(ATALLA_ERR_ARGUMENT, "memory of device " + std::to_string(device_.ordinal()) +
                                         " was requested for a stream of device " +
                                         std::to_string(stream.device().ordinal()));
  }
  std::lock_guard guard(lock_);
  if (bytes > device_.properties().dram_bytes) [[unlikely]]
    out_of_memory(bytes);  // and rounding cannot overflow
  if (!pending_.empty()) reclaim_finished();
  const size_t size = (bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
  Pool& pool = pool_of(size, stream);
  Block* block = pool.best_fit(size);
  if (block != nullptr) [[likely]] {
    leave_pool(block);
  } else {
    block = take_new_block(size, pool, bytes);
  }
  if (pool.worth_splitting(block->size - size)) split(block, size);
  block->allocated = true;
  block->requested = bytes;
  increase(stats_.allocation, pool, 1);
  increase(stats_.allocated_bytes, pool, static_cast<int64_t>(block->size));
  increase(stats_.requested_bytes, pool, static_cast<int64_t>(bytes));
  increase(stats_.active, pool, 1);
  increase(stats_.active_bytes, pool, static_cast<int64_t>(block->size));
  return reinterpret_cast<void*>(block->addr);
}

void AllocatorState::free(void* ptr) noexcept {
  if (ptr == nullptr) return;
  std::lock_guard guard(lock_);
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
  block->requested = 0;
  if (!block->users.empty()) [[unlikely]]
    return defer_free(block);
  put_back(block);
}

// The block keeps its first `size` bytes; the rest becomes a free block.
void AllocatorState::split(Block* block, size_t size) {
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

void AllocatorState::put_back(Block* block) {
  decrease(stats_.active, *block->pool, 1);
  decrease(stats_.active_bytes, *block->pool, static_cast<int64_t>(block->size));
  if (block->next != nullptr && block->next->is_free()) absorb(block, block->next);
  if (block->prev != nullptr && block->prev->is_free()) absorb(block, block->prev);
  enter_pool(block);
}

// Merges a free neighbour into a block that is in no pool.
void AllocatorState::absorb(Block* block, Block* neighbour) {
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

void AllocatorState::enter_pool(Block* block) {
  block->pool->insert(block);
  if (block->is_split()) {
    increase(stats_.inactive_split, *block->pool, 1);
    increase(stats_.inactive_split_bytes, *block->pool, static_cast<int64_t>(block->size));
  }
}

void AllocatorState::leave_pool(Block* block) noexcept {
  block->pool->remove(block);
  if (block->is_split()) {
    decrease(stats_.inactive_split, *block->pool, 1);
    decrease(stats_.inactive_split_bytes, *block->pool, static_cast<int64_t>(block->size));
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
  const std::vector<Stream*> users = std::exchange(block->users, {});
  for (Stream* user : users) {
    try {
      Event event(user->device());
      event.record(*user);
      pending_.push_back({std::move(event), block});
      ++block->pending_events;
    } catch (const std::exception&) {
      // No event can be had, or the stream has a fault: wait here instead.
      try {
        user->drain();
      } catch (const std::exception&) {  // a device that cannot even be waited for runs nothing
      }
    }
  }
  if (block->pending_events == 0) put_back(block);
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
