// SPDX-License-Identifier: BSD-3-Clause
#include "sim/dram/memory_system.h"

#include <algorithm>

namespace atalla::sim {

MemorySystem::MemorySystem(const ChipConfig& config, std::optional<BeatTiming> beats)
    : network_(config, beats ? 1 : config.memory_channels()),
      is_bus_(config.network_topology == Topology::kBus),
      link_bytes_(config.network_link_bytes),
      router_cycles_(config.network_router_cycles),
      setup_cycles_(beats ? beats->setup_cycles : config.sdma_setup_cycles),
      beat_millicycles_(beats ? beats->millicycles : config.beat_millicycles),
      bus_bytes_(config.bus_width_bytes),
      free_(is_bus_ ? 1 : config.core_count),
      link_free_(network_.links()),
      bytes_(network_.channels()) {
  if (beats || config.dram_preset == kConstantDram) return;
  address_map(config.dram, config.dram_preset.c_str(), &map_);  // checked when the configuration was read
  burst_bytes_ = config.dram.organization_burst_bytes;
  banks_.emplace(config.dram, map_, config.chip_clock_hz, free_.size());
}

void MemorySystem::reset() {
  if (banks_) banks_->reset();
  std::fill(free_.begin(), free_.end(), 0);
  std::fill(link_free_.begin(), link_free_.end(), 0);
  dram_free_ = 0;
  network_events_ = {};
}

uint64_t MemorySystem::idle_cycles(uint64_t core, uint64_t bytes) const {
  MemorySystem idle(*this);
  idle.reset();
  return idle.move(core, {0, 1, bytes, bytes, false}, 0).end;
}

// The tile's bytes by channel.
void MemorySystem::divide(const Tile& tile) {
  if (bytes_.size() == 1) {
    bytes_[0] = tile.rows * tile.row_bytes;
    return;
  }
  std::fill(bytes_.begin(), bytes_.end(), 0);
  for (uint64_t r = 0; r < tile.rows; ++r) {
    const uint64_t first = tile.address + r * tile.pitch, end = first + tile.row_bytes;
    for (uint64_t at = first; at < end;) {
      const uint64_t next = std::min(end, (at | (burst_bytes_ - 1)) + 1);
      bytes_[AddressMap::select(map_.channel, at)] += next - at;
      at = next;
    }
  }
}

// When all links of the tile's ways have passed its bytes, which start at `begin`.
uint64_t MemorySystem::pass_links(uint64_t core, bool to_memory, uint64_t begin) {
  uint64_t end = begin;
  for (uint64_t channel = 0; channel < bytes_.size(); ++channel) {
    if (bytes_[channel] == 0) continue;
    const uint64_t cycles = (bytes_[channel] + link_bytes_ - 1) / link_bytes_;
    const Interconnect::Path& path = network_.path(core, channel, to_memory);
    network_events_.link_bytes += bytes_[channel] * path.size();
    network_events_.router_bytes += bytes_[channel] * network_.routers(core, channel);
    for (const uint16_t link : path) {
      link_free_[link] = std::max(link_free_[link], begin) + cycles;
      end = std::max(end, link_free_[link]);
    }
  }
  return end;
}

// Of a message between the core and the farthest channel of the tile.
uint64_t MemorySystem::latency(uint64_t core) const {
  uint64_t most = 0;
  for (uint64_t channel = 0; channel < bytes_.size(); ++channel)
    if (bytes_[channel] != 0) most = std::max(most, network_.routers(core, channel));
  return most * router_cycles_;
}

MemorySystem::Passage MemorySystem::move(uint64_t core, const Tile& tile, uint64_t begin) {
  uint64_t way = 0, linked = 0;
  if (!is_bus_) {
    divide(tile);
    way = latency(core);
    // A written tile passes the links first; a read one follows its request.
    if (tile.writes) linked = pass_links(core, true, begin) + way;
  }
  Passage found;
  const uint64_t arrives = begin + way;
  uint64_t start = arrives;
  if (banks_) {
    uint64_t& free = free_[is_bus_ ? 0 : core];
    start = std::max(arrives, free);
    const DramBanks::Span span =
        banks_->move(tile.address, tile.rows, tile.row_bytes, tile.pitch, tile.writes, start, is_bus_ ? 0 : core);
    free = span.issued;
    found = {span.issued - way, span.end, span.issued - start};
  } else {
    start = std::max(arrives, dram_free_);
    found.moving = (beats_of(tile.rows, tile.row_bytes) * beat_millicycles_ + 999) / 1000;
    dram_free_ = found.end = start + found.moving;
    found.issued = found.end - way;
  }
  if (!is_bus_) {
    if (!tile.writes) linked = pass_links(core, false, start);
    found.end = std::max(found.end, linked) + (tile.writes ? 0 : way);
  }
  return found;
}

}  // namespace atalla::sim
