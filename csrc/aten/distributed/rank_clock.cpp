// SPDX-License-Identifier: BSD-3-Clause
#include "aten/distributed/rank_clock.h"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace atalla::aten {

namespace {

constexpr __int128 kPicoseconds = 1'000'000'000'000;

std::once_flag started;
std::atomic<uint64_t> start_cycle{0};

__int128 hertz(const runtime::Device& device) { return static_cast<__int128>(device.properties().clock_hz); }

}  // namespace

// The devices of a process have the clock of the process' host in common, so one cycle serves for all of them.
void start_rank_clocks() {
  std::call_once(started, [] {
    uint64_t latest = 0;
    for (int ordinal = 0; ordinal < runtime::device_count(); ++ordinal) {
      if (!runtime::Device::is_open(ordinal)) continue;
      try {
        latest = std::max(latest, runtime::Device::get(ordinal).counters().clock);
      } catch (const runtime::Error&) {  // a device library without clocks
      }
    }
    start_cycle = latest;
  });
}

int64_t rank_time(const runtime::Device& device, uint64_t cycle) {
  const __int128 cycles = static_cast<__int128>(cycle) - start_cycle;
  return static_cast<int64_t>(cycles * kPicoseconds / hertz(device));
}

uint64_t cycle_at(const runtime::Device& device, int64_t picoseconds) {
  const __int128 scaled = picoseconds * hertz(device);
  const __int128 cycles =
      start_cycle + (scaled > 0 ? (scaled + kPicoseconds - 1) / kPicoseconds : scaled / kPicoseconds);
  return cycles > 0 ? static_cast<uint64_t>(cycles) : 0;
}

}  // namespace atalla::aten
