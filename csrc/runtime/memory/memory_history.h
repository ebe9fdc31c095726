// SPDX-License-Identifier: BSD-3-Clause
//
// What the caching allocators did, and who asked them to: for those who look for a leak or a peak.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/c_api/export.h"
#include "runtime/memory/pool_id.h"

namespace atalla::runtime {

// Where a call came from (a captured stack). Only who gathers it knows what it is.
using MemoryContext = std::shared_ptr<void>;

enum class TraceAction : uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,  // the block can be handed out again: at once, or when other streams are done with it
  kSegmentAlloc,
  kSegmentFree,
  kSnapshot,
  kOom,  // bytes: what was requested; addr: the device's free bytes
};

struct TraceEntry {
  TraceAction action = TraceAction::kAlloc;
  uint64_t addr = 0;
  size_t bytes = 0;
  int64_t stream = 0;
  PoolId pool;
  int64_t time_us = 0;  // since the Unix epoch, on the host's clock
  MemoryContext context;
  std::string metadata;
};

// Each level includes the ones before.
enum class ContextLevel : uint8_t {
  kNone,
  kState,  // blocks in use know their context
  kAlloc,  // entries of allocations too
  kAll,    // entries of frees too
};

struct HistorySettings {
  bool trace = true;  // keep entries; else only contexts of blocks in use
  ContextLevel contexts = ContextLevel::kAll;
  MemoryContext (*gather)() = nullptr;  // called without any lock; may be null
  size_t max_entries = SIZE_MAX;        // of each device; the latest ones stay
  uint32_t skipped = 0;                 // bit TraceAction set: no entries of this kind

  bool keeps(TraceAction action) const noexcept { return trace && (skipped >> static_cast<uint32_t>(action) & 1) == 0; }
  MemoryContext context(ContextLevel level) const {
    return gather != nullptr && contexts >= level ? gather() : nullptr;
  }
};

// Starts recording on all devices (again: with other settings); nullptr ends it. Entries stay until they are cleared.
ATALLA_RUNTIME_API void record_memory_history(const HistorySettings* settings);
ATALLA_RUNTIME_API void clear_memory_history();
// Text that later entries carry, of any thread and device; "" for none.
ATALLA_RUNTIME_API void set_memory_metadata(const std::string& text);
ATALLA_RUNTIME_API std::string memory_metadata();

namespace detail {
// Null while nothing is recorded. What it points to lives as long as the process: threads may be reading it.
ATALLA_RUNTIME_API extern std::atomic<const HistorySettings*> history;
}  // namespace detail
inline const HistorySettings* memory_history() noexcept { return detail::history.load(std::memory_order_acquire); }

}  // namespace atalla::runtime
