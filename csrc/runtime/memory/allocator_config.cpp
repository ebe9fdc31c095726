// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/memory/allocator_config.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <mutex>

#include "runtime/memory/pool.h"

namespace atalla::runtime {

namespace detail {
constinit const AllocatorConfig default_config{};
constinit std::atomic<const AllocatorConfig*> config{&default_config};
}  // namespace detail

void set_allocator_config(const AllocatorConfig& config) {
  static auto* mutex = new std::mutex;
  static auto* kept = new std::deque<AllocatorConfig>;  // others may be reading the earlier ones
  std::lock_guard guard(*mutex);
  if (config == allocator_config()) return;
  detail::config.store(&kept->emplace_back(config), std::memory_order_release);
}

size_t divided_bytes(size_t bytes, const AllocatorConfig& config) noexcept {
  constexpr int kFirst = 20;  // log2 of the first interval's bytes
  const int interval = std::clamp(static_cast<int>(std::bit_width(bytes)) - 1 - kFirst, 0,
                                  static_cast<int>(AllocatorConfig::kIntervals) - 1);
  const size_t divisions = config.roundup_power2_divisions[static_cast<size_t>(interval)];
  size_t unit = kBlockAlign;
  if (divisions > 1 && bytes > kBlockAlign * divisions) unit = std::bit_floor(bytes) / divisions;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace atalla::runtime
