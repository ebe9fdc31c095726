// SPDX-License-Identifier: BSD-3-Clause
//
// The slow path of the caching allocator: DRAM from the device and back, and what to do when there is none.
#include <cinttypes>
#include <cstdio>
#include <string>

#include "allocator_state.h"
#include "api.h"
#include "error.h"
#include "stream.h"

namespace atalla::runtime {
namespace {

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t segment_bytes(size_t size) {
  if (size <= kSmallSize) return kSmallSegment;
  if (size < kMinLargeRequest) return kLargeSegment;
  return round_up(size, kLargeRounding);
}

// "1.50 GiB (1610612736 bytes)"
std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[64];
  if (unit == 0) {
    std::snprintf(text, sizeof text, "%" PRIu64 " bytes", bytes);
  } else {
    std::snprintf(text, sizeof text, "%.2f %s (%" PRIu64 " bytes)", value, kUnits[unit], bytes);
  }
  return text;
}

}  // namespace

Block* AllocatorState::take_new_block(size_t size, Pool& pool, size_t requested) {
  if (Block* block = new_segment(segment_bytes(size), pool)) return block;
  // The cache may hold enough, in other sizes or for other streams. Waiting first without the lock keeps others going.
  ++stats_.num_alloc_retries;
  lock_.unlock();
  try {
    device_.drain();
  } catch (...) {
    lock_.lock();
    throw;
  }
  lock_.lock();
  wait_for_streams();
  reclaim_finished();
  if (Block* block = pool.best_fit(size)) {
    leave_pool(block);
    return block;
  }
  release_free_segments();
  if (Block* block = new_segment(segment_bytes(size), pool)) return block;
  // A segment of the usual size does not fit; one for this request alone may.
  if (Block* block = new_segment(size, pool)) return block;
  out_of_memory(requested);
}

Block* AllocatorState::new_segment(size_t bytes, Pool& pool) {
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
  segments_.emplace(block->addr, bytes);
  ++stats_.num_device_alloc;
  increase(stats_.segment, pool, 1);
  increase(stats_.reserved_bytes, pool, static_cast<int64_t>(bytes));
  return block;
}

// A segment given back may be handed out for another stream at once, so nothing may be running that uses it.
void AllocatorState::wait_for_streams() {
  ++stats_.num_sync_all_streams;
  device_.drain();
  for (const PendingFree& entry : pending_) {  // streams of other devices
    try {
      entry.event.synchronize();
    } catch (const std::exception&) {  // a stream with a fault runs nothing
    }
  }
}

void AllocatorState::release_free_segments() {
  for (auto it = segments_.begin(); it != segments_.end();) {
    Block* block = table_.find(it->first);
    if (!block->is_free() || block->is_split()) {
      ++it;
      continue;
    }
    Pool& pool = *block->pool;
    leave_pool(block);
    table_.set(block->addr, nullptr);
    ++stats_.num_device_free;
    decrease(stats_.segment, pool, 1);
    decrease(stats_.reserved_bytes, pool, static_cast<int64_t>(block->size));
    const atalla_addr addr = block->addr;
    store_.discard(block);
    it = segments_.erase(it);
    check(api().mem_free(device_.handle(), addr));
  }
}

void AllocatorState::empty_cache() {
  device_.drain();  // without the lock; what comes meanwhile is waited for below
  std::lock_guard guard(lock_);
  wait_for_streams();
  reclaim_finished();
  release_free_segments();
}

void AllocatorState::out_of_memory(size_t requested) {
  ++stats_.num_ooms;
  uint64_t free_bytes = 0;
  uint64_t total_bytes = device_.properties().dram_bytes;
  (void)api().mem_info(device_.handle(), &free_bytes, &total_bytes);
  const uint64_t allocated = static_cast<uint64_t>(stats_.allocated_bytes[0].current);
  const uint64_t reserved = static_cast<uint64_t>(stats_.reserved_bytes[0].current);
  std::string text = "atalla:" + std::to_string(device_.ordinal()) + " is out of memory: requested " +
                     bytes_text(requested) + "; allocated " + bytes_text(allocated) + ", reserved by the allocator " +
                     bytes_text(reserved) + ", free " + bytes_text(free_bytes) + " of a total of " +
                     bytes_text(total_bytes);
  if (limit_ != 0) text += ", with the allocator limited to " + bytes_text(limit_);
  throw Error(ATALLA_ERR_OUT_OF_MEMORY, text);
}

}  // namespace atalla::runtime
