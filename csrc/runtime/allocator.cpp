// SPDX-License-Identifier: BSD-3-Clause
//
// The caching allocator's interface, and the questions that one can ask it.
#include "allocator.h"

#include <mutex>
#include <string>

#include "allocator_state.h"
#include "error.h"

namespace atalla::runtime {

CachingAllocator::CachingAllocator(Device& device) : state_(std::make_unique<AllocatorState>(device)) {}
CachingAllocator::~CachingAllocator() = default;

void* CachingAllocator::allocate(size_t bytes, Stream& stream) { return state_->allocate(bytes, stream); }
void CachingAllocator::free(void* ptr) noexcept { state_->free(ptr); }
void CachingAllocator::record_stream(void* ptr, Stream& stream) { state_->record_stream(ptr, stream); }
void CachingAllocator::empty_cache() { state_->empty_cache(); }
size_t CachingAllocator::allocation_bytes(const void* ptr) const { return state_->allocation_bytes(ptr); }
void* CachingAllocator::allocation_base(const void* ptr, size_t* bytes) const {
  return state_->allocation_base(ptr, bytes);
}
void CachingAllocator::set_limit(size_t bytes) { state_->set_limit(bytes); }
Stats CachingAllocator::stats() const { return state_->stats(); }
void CachingAllocator::reset_peak_stats() { state_->reset_peak_stats(); }
void CachingAllocator::reset_accumulated_stats() { state_->reset_accumulated_stats(); }
std::vector<SegmentInfo> CachingAllocator::snapshot() const { return state_->snapshot(); }

namespace {

template <class Action>
void each_stat(Stats& stats, Action&& action) {
  for (StatArray* array :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (Stat& stat : *array) action(stat);
  }
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
  if (addr - segment->first >= segment->second) return nullptr;
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

Stats AllocatorState::stats() const {
  std::lock_guard guard(lock_);
  return stats_;
}

void AllocatorState::reset_peak_stats() {
  std::lock_guard guard(lock_);
  each_stat(stats_, [](Stat& stat) { stat.peak = stat.current; });
}

void AllocatorState::reset_accumulated_stats() {
  std::lock_guard guard(lock_);
  each_stat(stats_, [](Stat& stat) { stat.allocated = stat.freed = 0; });
  stats_.num_alloc_retries = stats_.num_ooms = stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = stats_.num_device_free = 0;
}

std::vector<SegmentInfo> AllocatorState::snapshot() const {
  std::lock_guard guard(lock_);
  std::vector<SegmentInfo> result;
  for (const auto& [addr, bytes] : segments_) {
    const Block* block = table_.find(addr);
    SegmentInfo info{addr, bytes, block->pool->stream->id(), block->pool->kind == PoolKind::kLarge, {}};
    for (; block != nullptr; block = block->next) {
      info.blocks.push_back({block->addr, block->size, block->requested, block->allocated, !block->is_free()});
    }
    result.push_back(std::move(info));
  }
  return result;
}

}  // namespace atalla::runtime
