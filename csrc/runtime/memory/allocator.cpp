// SPDX-License-Identifier: BSD-3-Clause
//
// The caching allocator's interface, and the questions that one can ask it.
#include "runtime/memory/allocator.h"

#include <mutex>
#include <string>
#include <utility>

#include "runtime/device/error.h"
#include "runtime/memory/allocator_state.h"

namespace atalla::runtime {

CachingAllocator::CachingAllocator(Device& device) : state_(std::make_unique<AllocatorState>(device)) {}
CachingAllocator::~CachingAllocator() = default;

void* CachingAllocator::allocate(size_t bytes, Stream& stream) { return state_->allocate(bytes, stream); }
void CachingAllocator::free(void* ptr) noexcept { state_->free(ptr); }
void CachingAllocator::record_stream(void* ptr, Stream& stream) { state_->record_stream(ptr, stream); }
void CachingAllocator::empty_cache(PoolId only) { state_->empty_cache(only); }
size_t CachingAllocator::allocation_bytes(const void* ptr) const { return state_->allocation_bytes(ptr); }
void* CachingAllocator::allocation_base(const void* ptr, size_t* bytes) const {
  return state_->allocation_base(ptr, bytes);
}
MemoryContext CachingAllocator::allocation_context(const void* ptr) const { return state_->allocation_context(ptr); }
void CachingAllocator::set_limit(size_t bytes) { state_->set_limit(bytes); }
size_t CachingAllocator::limit() const { return state_->limit(); }

void CachingAllocator::create_pool(PoolId id, PoolOptions options) { state_->create_pool(id, options); }
void CachingAllocator::begin_allocate_to_pool(PoolId id, std::function<bool(const Stream&)> takes) {
  state_->begin_allocate_to_pool(id, std::move(takes));
}
void CachingAllocator::end_allocate_to_pool(PoolId id) { state_->end_allocate_to_pool(id); }
void CachingAllocator::release_pool(PoolId id) { state_->release_pool(id); }
int CachingAllocator::pool_users(PoolId id) const { return state_->pool_users(id); }

Stats CachingAllocator::stats() const { return state_->stats(); }
void CachingAllocator::reset_peak_stats() { state_->reset_peak_stats(); }
void CachingAllocator::reset_accumulated_stats() { state_->reset_accumulated_stats(); }
Snapshot CachingAllocator::snapshot(PoolId only, bool with_trace) { return state_->snapshot(only, with_trace); }
void CachingAllocator::clear_trace() { state_->clear_trace(); }

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
