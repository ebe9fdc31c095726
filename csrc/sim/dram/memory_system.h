// SPDX-License-Identifier: BSD-3-Clause
//
// The way of the tiles of SDMA engines: the bus or the network of a chip, and its DRAM. The cores of a chip share it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/device/config.h"
#include "sim/dram/banks.h"
#include "sim/dram/interconnect.h"

namespace atalla::sim {

// How long a beat of a DRAM without banks takes, and the set-up of a tile.
struct BeatTiming {
  uint64_t setup_cycles = 0;
  uint64_t millicycles = 0;
};

class MemorySystem {
 public:
  // `beats`: of a DRAM without banks; none: the chip's own, with banks if its preset has them.
  MemorySystem(const ChipConfig& config, std::optional<BeatTiming> beats);
  void reset();

  struct Tile {
    uint64_t address = 0;
    uint64_t rows = 0;
    uint64_t row_bytes = 0;
    uint64_t pitch = 0;  // bytes from one row to the next
    bool writes = false;
  };
  struct Passage {
    uint64_t issued = 0;  // the core's next tile may follow
    uint64_t end = 0;     // the last byte has arrived
    uint64_t moving = 0;  // cycles for which the tile kept the way busy
  };
  // A tile whose first request may leave the core at cycle `begin`, if the way is free. Reserves links, bus and DRAM:
  // calls are in the order in which requests are served. Allocates nothing.
  Passage move(uint64_t core, const Tile& tile, uint64_t begin);

  uint64_t setup_cycles() const { return setup_cycles_; }
  // In which so many bytes, a row, come to a core if nothing else moves.
  uint64_t idle_cycles(uint64_t core, uint64_t bytes) const;
  uint64_t beats_of(uint64_t rows, uint64_t row_bytes) const {
    return rows * ((row_bytes + bus_bytes_ - 1) / bus_bytes_);
  }
  // Bytes times the links, and times the routers, that they passed.
  struct NetworkEvents {
    uint64_t link_bytes = 0;
    uint64_t router_bytes = 0;
  };
  NetworkEvents network_events() const { return network_events_; }
  DramBanks::Events dram_events() const { return banks_ ? banks_->events() : DramBanks::Events{}; }

 private:
  void divide(const Tile& tile);
  uint64_t pass_links(uint64_t core, bool to_memory, uint64_t begin);
  uint64_t latency(uint64_t core) const;

  Interconnect network_;
  bool is_bus_;
  uint64_t link_bytes_;
  uint64_t router_cycles_;
  uint64_t setup_cycles_;
  uint64_t beat_millicycles_;
  uint64_t bus_bytes_;
  AddressMap map_;
  uint64_t burst_bytes_ = 1;
  std::optional<DramBanks> banks_;   // none: every beat takes beat_millicycles_
  std::vector<uint64_t> free_;       // of each core's way to a DRAM with banks, for requests; of a bus, one
  uint64_t dram_free_ = 0;           // of a DRAM without banks
  std::vector<uint64_t> link_free_;  // links are kept for a tile's bytes, not for its time
  std::vector<uint64_t> bytes_;      // of the tile at hand, by channel
  NetworkEvents network_events_;
};

}  // namespace atalla::sim
