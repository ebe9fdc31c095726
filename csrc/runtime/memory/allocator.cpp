// SPDX-License-Identifier: BSD-3-Clause
//
// The questions that one can ask the caching allocator.
#include <mutex>

#include "runtime/memory/allocator_state.h"

namespace atalla::runtime {

namespace {

template <class Action>
void each_stat(Stats& stats, Action&& action) {
  for (StatArray* array :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (Stat& stat : *array) action(stat);
  }
  action(stats.oversize_allocations);
  action(stats.oversize_segments);
  for (auto& [id, array] : stats.reserved_bytes_by_private_pools)
    for (Stat& stat : array) action(stat);
}

}  // namespace

size_t AllocatorState::allocation_bytes(const void* ptr) const {
  std::lock_guard guard(lock_);
  return block_of(ptr)->size;
}

void* AllocatorState::allocation_base(const void* ptr, size_t* bytes) const {
  const uintptr_t addr = reinterpret_cast<uintptr_t>(ptr);
  std::lock_guard guard(lock_);
  auto segment = segments_.upper_bound(addr);
  if (segment == segments_.begin()) return nullptr;
  --segment;
  if (addr - segment->first >= segment->second.bytes) return nullptr;
  const Block* block = table_.find(segment->first);
  while (block != nullptr && addr - block->addr >= block->size) block = block->next;
  if (block == nullptr || !block->allocated) return nullptr;
  if (bytes != nullptr) *bytes = block->size;
  return reinterpret_cast<void*>(block->addr);
}

void AllocatorState::set_limit(size_t bytes) {
  std::lock_guard guard(lock_);
  limit_ = bytes;
}

size_t AllocatorState::limit() const {
  std::lock_guard guard(lock_);
  return limit_;
}

Stats AllocatorState::stats() {
  std::lock_guard guard(lock_);
  merge_latest();
  return stats_;
}

void AllocatorState::reset_peak_stats() {
  std::lock_guard guard(lock_);
  merge_latest();
  each_stat(stats_, [](Stat& stat) { stat.peak = stat.current; });
}

void AllocatorState::reset_accumulated_stats() {
  std::lock_guard guard(lock_);
  each_stat(stats_, [](Stat& stat) { stat.allocated = stat.freed = 0; });
  stats_.num_alloc_retries = stats_.num_ooms = stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = stats_.num_device_free = 0;
}

}  // namespace atalla::runtime
