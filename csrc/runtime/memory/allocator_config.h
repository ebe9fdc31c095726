// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/c_api/export.h"

namespace atalla::runtime {

// How all caching allocators of the process behave; the settings of PYTORCH_ALLOC_CONF.
struct AllocatorConfig {
  static constexpr size_t kIntervals = 16;  // of request sizes: [1, 2) MiB and what is below, ... 32 GiB and above

  size_t max_split_size = SIZE_MAX;                             // bytes; blocks of this size on are not split
  size_t max_non_split_rounding = size_t{20} << 20;             // bytes that such a block may exceed the request by
  size_t large_segment = size_t{20} << 20;                      // bytes of segments for requests below 10 MiB
  double garbage_collection_threshold = 0;                      // of the limit, in (0, 1); 0: none
  std::array<uint32_t, kIntervals> roundup_power2_divisions{};  // of each interval; 0 or 1: multiples of 512 bytes

  bool caching = true;  // else each allocation has a segment of its own, and a free waits and gives it back

  bool operator==(const AllocatorConfig&) const = default;
};

namespace detail {
ATALLA_RUNTIME_API extern const AllocatorConfig default_config;
// What it points to lives as long as the process: threads may be reading it.
ATALLA_RUNTIME_API extern std::atomic<const AllocatorConfig*> config;
}  // namespace detail

// Holds for later allocations. Thread-safe.
ATALLA_RUNTIME_API void set_allocator_config(const AllocatorConfig& config);
inline const AllocatorConfig& allocator_config() noexcept { return *detail::config.load(std::memory_order_acquire); }

// The size of a block for `bytes` bytes, by roundup_power2_divisions; a multiple of 512.
ATALLA_RUNTIME_API size_t divided_bytes(size_t bytes, const AllocatorConfig& config) noexcept;

}  // namespace atalla::runtime
