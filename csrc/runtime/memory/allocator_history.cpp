// SPDX-License-Identifier: BSD-3-Clause
//
// What the caching allocator records of its own work, and the picture of its segments.
#include <algorithm>
#include <chrono>

#include "runtime/memory/allocator_state.h"
#include "runtime/stream/stream.h"

namespace atalla::runtime {

void AllocatorState::trace(TraceAction action, uint64_t addr, size_t bytes, const Pool* pool,
                           const MemoryContext& context) {
  const HistorySettings* history = memory_history();
  if (history == nullptr || !history->keeps(action) || history->max_entries == 0) return;
  TraceEntry entry;
  entry.action = action;
  entry.addr = addr;
  entry.bytes = bytes;
  if (pool != nullptr) {
    entry.stream = pool->stream->id();
    if (pool->owner != nullptr) entry.pool = pool->owner->id;
  }
  entry.time_us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  if (history->contexts >= ContextLevel::kAlloc) entry.context = context;
  entry.metadata = memory_metadata();
  if (trace_.size() > history->max_entries) {  // the limit was lowered: the latest ones stay, in order
    std::rotate(trace_.begin(), trace_.begin() + static_cast<ptrdiff_t>(trace_next_), trace_.end());
    trace_.erase(trace_.begin(), trace_.end() - static_cast<ptrdiff_t>(history->max_entries));
    trace_next_ = 0;
  }
  if (trace_.size() < history->max_entries) {
    if (trace_next_ != 0) {  // the limit was raised
      std::rotate(trace_.begin(), trace_.begin() + static_cast<ptrdiff_t>(trace_next_), trace_.end());
      trace_next_ = 0;
    }
    trace_.push_back(std::move(entry));
    return;
  }
  trace_[trace_next_] = std::move(entry);
  trace_next_ = (trace_next_ + 1) % trace_.size();
}

void AllocatorState::clear_trace() {
  std::vector<TraceEntry> dropped;  // contexts die without the lock
  std::lock_guard guard(lock_);
  dropped.swap(trace_);
  trace_next_ = 0;
}

Snapshot AllocatorState::snapshot(PoolId only, bool with_trace) {
  Snapshot result;
  std::lock_guard guard(lock_);
  merge_latest();
  for (const auto& [addr, segment] : segments_) {
    const Block* block = table_.find(addr);
    const Pool& pool = *block->pool;
    const PoolId id = pool.owner != nullptr ? pool.owner->id : PoolId{};
    if (only != PoolId{} && id != only) continue;
    SegmentInfo info{addr, segment.bytes, pool.stream->id(), pool.kind == PoolKind::kLarge, id, segment.context, {}};
    for (; block != nullptr; block = block->next) {
      info.blocks.push_back(
          {block->addr, block->size, block->requested, block->allocated, !block->is_free(), block->context});
    }
    result.segments.push_back(std::move(info));
  }
  if (with_trace) {
    if (memory_history() != nullptr) trace(TraceAction::kSnapshot, 0, 0, nullptr, nullptr);
    result.trace.assign(trace_.begin() + static_cast<ptrdiff_t>(trace_next_), trace_.end());
    result.trace.insert(result.trace.end(), trace_.begin(), trace_.begin() + static_cast<ptrdiff_t>(trace_next_));
  }
  return result;
}

MemoryContext AllocatorState::allocation_context(const void* ptr) const {
  std::lock_guard guard(lock_);
  const Block* block = table_.find(reinterpret_cast<uintptr_t>(ptr));
  return block != nullptr && block->allocated ? block->context : nullptr;
}

}  // namespace atalla::runtime
