// SPDX-License-Identifier: BSD-3-Clause
#include "sim/dram/interconnect.h"

#include <algorithm>

namespace atalla::sim {
namespace {

enum Direction : uint64_t { kEast, kWest, kSouth, kNorth, kDirections };

}  // namespace

Interconnect::Interconnect(const ChipConfig& config, uint64_t channels)
    : channels_(channels), ways_(config.core_count * channels) {
  if (config.network_topology == Topology::kBus) return;
  const bool mesh = config.network_topology == Topology::kMesh;
  const uint64_t cores = config.core_count, columns = mesh ? config.network_columns : 1;
  const uint64_t rows = mesh ? (cores + columns - 1) / columns : 1;
  // Those between routers first, then two of each core, then two of each channel.
  const uint64_t core_links = rows * columns * kDirections, channel_links = core_links + 2 * cores;
  links_ = channel_links + 2 * channels;
  for (uint64_t core = 0; core < cores; ++core) {
    for (uint64_t channel = 0; channel < channels; ++channel) {
      Way& way = ways_[core * channels + channel];
      const uint64_t here = mesh ? core : 0, there = channel % rows * columns;
      way.routers =
          1 + (here % columns) + std::max(here / columns, there / columns) - std::min(here / columns, there / columns);
      way.to_memory = mesh_path(here, there, columns);
      way.to_core = mesh_path(there, here, columns);
      way.to_memory.push_back(static_cast<uint16_t>(core_links + 2 * core));
      way.to_core.push_back(static_cast<uint16_t>(core_links + 2 * core + 1));
      way.to_memory.push_back(static_cast<uint16_t>(channel_links + 2 * channel));
      way.to_core.push_back(static_cast<uint16_t>(channel_links + 2 * channel + 1));
    }
  }
}

// Between routers, in this order: along the row, along the column.
Interconnect::Path Interconnect::mesh_path(uint64_t from, uint64_t to, uint64_t columns) const {
  Path found;
  for (uint64_t at = from; at != to;) {
    Direction direction;
    uint64_t next;
    if (at % columns < to % columns) direction = kEast, next = at + 1;
    else if (at % columns > to % columns) direction = kWest, next = at - 1;
    else if (at < to) direction = kSouth, next = at + columns;
    else direction = kNorth, next = at - columns;
    found.push_back(static_cast<uint16_t>(at * kDirections + direction));
    at = next;
  }
  return found;
}

}  // namespace atalla::sim
