// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/timing.h"

#include <algorithm>
#include <bit>

namespace atalla::sim {
namespace {

constexpr uint64_t kMilli = 1000;

// Absurd sizes (an estimate of shapes that no DRAM holds) must not wrap the clock.
constexpr uint64_t kMaxUnits = uint64_t{1} << 48;
constexpr uint64_t clip(uint64_t units) { return std::min(units, kMaxUnits); }

}  // namespace

Timing::Timing(const ChipConfig& config)
    : beat_millicycles_(config.beat_millicycles),
      setup_cycles_(config.sdma_setup_cycles),
      vector_occupancy_(config.vector_occupancy_cycles),
      vector_latency_(config.vector_load_latency_cycles + config.vector_latency_cycles +
                      config.vector_store_latency_cycles),
      row_cycles_(config.array_row_cycles),
      array_latency_(config.array_latency_cycles),
      overhead_(config.launch_overhead_cycles),
      link_bytes_per_cycle_(config.link_bytes_per_cycle),
      link_latency_(config.link_latency_cycles) {
  const uint64_t tile_bytes = config.sdma_tile_rows * config.sdma_tile_columns * config.sdma_element_bytes;
  tile_bytes_mask_ = tile_bytes - 1;
  tile_bytes_shift_ = static_cast<unsigned>(std::countr_zero(tile_bytes));
  bus_bytes_mask_ = config.bus_width_bytes - 1;
  bus_bytes_shift_ = static_cast<unsigned>(std::countr_zero(config.bus_width_bytes));
}

uint64_t Timing::bus_cycles(uint64_t beats) const {
  const unsigned __int128 millicycles = static_cast<unsigned __int128>(beats) * beat_millicycles_;
  if (millicycles >> 63 == 0) [[likely]]
    return (static_cast<uint64_t>(millicycles) + kMilli - 1) / kMilli;
  return static_cast<uint64_t>((millicycles + kMilli - 1) / kMilli);
}

Charge Timing::launch(const Work& work) const {
  const uint64_t read = clip(work.bytes_read), written = clip(work.bytes_written);
  Charge charge;
  charge.sdma_cycles =
      (tiles_of(read) + tiles_of(written)) * setup_cycles_ + bus_cycles(beats_of(read) + beats_of(written));
  charge.vector_cycles = clip(work.vector_ops) * vector_occupancy_;
  charge.array_cycles = clip(work.array_rows) * row_cycles_;
  uint64_t latency = 0;
  if (charge.vector_cycles != 0) latency += vector_latency_;
  if (charge.array_cycles != 0) latency += array_latency_;
  charge.cycles = overhead_ + std::max(charge.sdma_cycles, charge.vector_cycles + charge.array_cycles) + latency;
  return charge;
}

Charge Timing::copy(uint64_t row_bytes, uint64_t rows, bool reads, bool writes) const {
  Charge charge;
  if (row_bytes == 0 || rows == 0) return charge;
  const uint64_t directions = (reads ? 1u : 0u) + (writes ? 1u : 0u);
  const uint64_t bytes = clip(row_bytes);
  const uint64_t beats = ((bytes + bus_bytes_mask_) >> bus_bytes_shift_) * std::min(rows, kMaxUnits / bytes + 1);
  const uint64_t total = bytes * std::min(rows, kMaxUnits / bytes + 1);
  const uint64_t tiles = (total + tile_bytes_mask_) >> tile_bytes_shift_;
  charge.sdma_cycles = directions * (tiles * setup_cycles_ + bus_cycles(beats));
  charge.cycles = overhead_ + charge.sdma_cycles;
  return charge;
}

Charge Timing::link(uint64_t bytes, uint64_t messages, bool reads, bool writes) const {
  Charge charge = copy(bytes, messages, reads, writes);
  const unsigned __int128 each = link_latency_ + ceil_div(clip(bytes), link_bytes_per_cycle_);
  charge.link_cycles = static_cast<uint64_t>(std::min<unsigned __int128>(each * messages, kMaxUnits));
  charge.cycles = messages == 0 ? 0 : overhead_ + std::max(charge.link_cycles, charge.sdma_cycles);
  return charge;
}

}  // namespace atalla::sim
