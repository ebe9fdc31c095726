// SPDX-License-Identifier: BSD-3-Clause
//
// The network between the cores of a chip and the channels of its memory. docs/concepts/network.md explains it.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/device/config.h"

namespace atalla::sim {

// Which links and how many routers a message passes. A bus has none of both. A crossbar is one router; a mesh has one
// for each core, in rows of network.columns, with the memory channels at those of its first column in turn. Messages go
// along a row first, then along a column. Each core and channel has a link in each direction, as neighbours have.
class Interconnect {
 public:
  using Path = std::vector<uint16_t>;

  Interconnect(const ChipConfig& config, uint64_t channels);

  uint64_t channels() const { return channels_; }
  size_t links() const { return links_; }
  uint64_t routers(uint64_t core, uint64_t channel) const { return ways_[core * channels_ + channel].routers; }
  // From the core to the channel, or back.
  const Path& path(uint64_t core, uint64_t channel, bool to_memory) const {
    const Way& way = ways_[core * channels_ + channel];
    return to_memory ? way.to_memory : way.to_core;
  }

 private:
  struct Way {
    uint64_t routers = 0;
    Path to_memory;
    Path to_core;
  };
  Path mesh_path(uint64_t from, uint64_t to, uint64_t columns) const;

  uint64_t channels_;
  size_t links_ = 0;
  std::vector<Way> ways_;
};

}  // namespace atalla::sim
