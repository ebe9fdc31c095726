// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/c_api/export.h"
#include "runtime/memory/memory_history.h"
#include "runtime/memory/pool_id.h"

namespace atalla::runtime {

// One quantity of the caching allocator over time.
struct Stat {
  int64_t current = 0;
  int64_t peak = 0;       // of current, since the last reset_peak_stats
  int64_t allocated = 0;  // sum of all increases, since the last reset_accumulated_stats
  int64_t freed = 0;      // sum of all decreases

  void increase(int64_t amount) noexcept {
    current += amount;
    allocated += amount;
    if (current > peak) peak = current;
  }
  void decrease(int64_t amount) noexcept {
    current -= amount;
    freed += amount;
  }
};

enum class PoolKind : uint8_t { kAll = 0, kSmall = 1, kLarge = 2 };
using StatArray = std::array<Stat, 3>;  // indexed by PoolKind

// The structure (and the meaning of each entry) of torch.cuda.memory_stats.
struct Stats {
  StatArray allocation;      // blocks held by the caller
  StatArray segment;         // DRAM ranges taken from the device
  StatArray active;          // blocks held by the caller or still in use by another stream
  StatArray inactive_split;  // free blocks that are a part of a segment
  StatArray allocated_bytes;
  StatArray reserved_bytes;  // of segments
  StatArray active_bytes;
  StatArray inactive_split_bytes;
  StatArray requested_bytes;  // before rounding
  Stat oversize_allocations;  // blocks of at least AllocatorConfig::max_split_size
  Stat oversize_segments;
  int64_t num_alloc_retries = 0;  // allocations that succeeded or failed only after the cache was emptied
  int64_t num_ooms = 0;
  int64_t num_sync_all_streams = 0;
  int64_t num_device_alloc = 0;
  int64_t num_device_free = 0;
  std::map<PoolId, StatArray> reserved_bytes_by_private_pools;  // a pool that is gone stays, with current 0
};

// One segment and its blocks in address order, for memory snapshots and tests.
struct BlockInfo {
  uint64_t addr = 0;
  size_t bytes = 0;
  size_t requested = 0;
  bool allocated = false;
  bool active = false;    // allocated, or still in use by another stream
  MemoryContext context;  // of the allocation, if it was recorded
};
struct SegmentInfo {
  uint64_t addr = 0;
  size_t bytes = 0;
  int64_t stream = 0;
  bool large = false;
  PoolId pool;            // {0, 0}: the default pools
  MemoryContext context;  // of the allocation that needed the segment
  std::vector<BlockInfo> blocks;
};

}  // namespace atalla::runtime
