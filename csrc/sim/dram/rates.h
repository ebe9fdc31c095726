// SPDX-License-Identifier: BSD-3-Clause
//
// How fast a memory system moves the tiles of a launch's operands, where that depends on their places.
// docs/concepts/dram.md explains how the functional engine uses the rates.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/abi/atalla_schedule.h"
#include "sim/device/config.h"
#include "sim/host/spin_lock.h"

namespace atalla::sim {

// The tiles of one operand, and how many bytes they are in proportion to other operands.
struct TileStream {
  atalla_tile_layout layout;
  uint64_t bytes = 0;
  bool writes = false;  // to DRAM
  bool shared = false;  // each core moves all of it
  uint64_t apart = 0;   // bytes from the part of a core to that of the next; 0: any number
};

struct BeatRate {
  uint64_t millicycles = 0;  // thousandths of a cycle per beat of the bus, with the set-up of tiles
  uint64_t femtojoules = 0;  // of a DRAM with banks, for the rows that it opens and its accesses; otherwise 0
};

// When the SDMA engines of `cores` cores move the streams side by side, in proportion to their bytes. Each engine
// starts a tile when its last one has ended.
BeatRate measure_rate(const ChipConfig& config, std::span<const TileStream> streams, uint64_t cores);

// The rates of one chip, each measured once. Thread-safe.
class DramRates {
 public:
  explicit DramRates(const ChipConfig& config) : config_(config) {}
  // Overwrites `streams`. Their bytes count in steps of the largest one's; tiles without gaps are parts without gaps.
  BeatRate of(std::span<TileStream> streams, uint64_t cores) const;

 private:
  using Key = std::vector<uint64_t>;
  struct Hash {
    size_t operator()(const Key& key) const;
  };

  const ChipConfig& config_;
  mutable SpinLock lock_;
  mutable std::unordered_map<Key, BeatRate, Hash> known_;
};

}  // namespace atalla::sim
