// SPDX-License-Identifier: BSD-3-Clause
//
// The timing model: turns what a kernel does (Cost) into cycles of the chip's units. docs/concepts/timing.md derives
// it. Integer arithmetic throughout, so that every machine gets the same cycles.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/abi/atalla_schedule.h"
#include "sim/device/config.h"
#include "sim/dram/rates.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim {

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

struct Charge {
  uint64_t cycles = 0;  // from the launch's first to its last cycle
  uint64_t sdma_cycles = 0;
  uint64_t vector_cycles = 0;
  uint64_t array_cycles = 0;
  uint64_t link_cycles = 0;       // of the link to other chips
  uint64_t dram_femtojoules = 0;  // of a DRAM with banks, where the operands lie; otherwise 0
  uint32_t scratchpad_bytes = 0;  // occupied from the first to the last cycle

  bool operator==(const Charge&) const = default;
};

class Timing {
 public:
  explicit Timing(const ChipConfig& config);

  // On one core, all operands in DRAM, whose beats all take the same time and whose tiles come one by one.
  Charge launch(const Cost& cost) const;
  // True if the time of a beat depends on where operands lie.
  bool has_banks() const { return rates_.has_value(); }
  // True if the time of a launch depends on its code, or on the rows of scratchpads that it takes.
  bool has_limits() const { return !code_.ideal || !words_.ideal || ports_ < kPorts; }

  // A launch whose operands of the mask `resident` lie in the scratchpads, divided over `cores` cores (at least 1, at
  // most the chip's). *read and *written become the bytes of DRAM that it moves.
  Charge launch(const atalla_launch_work& work, uint32_t resident, uint64_t cores, uint64_t* read,
                uint64_t* written) const;
  uint64_t cores() const { return cores_; }

  // A copy of `rows` rows that reads and writes DRAM (or only one of both, the other end being the host's).
  Charge copy(uint64_t row_bytes, uint64_t rows, bool reads, bool writes) const;

  // `messages` messages over the link, one after the other, each of `bytes` bytes (possibly none) that are read from
  // or written to DRAM while they pass.
  Charge link(uint64_t bytes, uint64_t messages, bool reads, bool writes) const;

 private:
  uint64_t bus_cycles(uint64_t beats) const;
  // Of n cores' engines, for the operands in DRAM, in a memory whose beats depend on them: SDMA cycles, energy.
  void move_in_banks(const atalla_launch_work& work, uint32_t resident, uint64_t n, uint64_t beats,
                     Charge* charge) const;
  uint64_t copy_cycles(const atalla_tile_layout& layout, uint64_t bytes) const;
  uint64_t tiles_of(uint64_t bytes) const { return (bytes + tile_bytes_mask_) >> tile_bytes_shift_; }
  uint64_t beats_of(uint64_t bytes) const { return (bytes + bus_bytes_mask_) >> bus_bytes_shift_; }
  static uint64_t steps_of(uint64_t read_tiles, uint64_t written_tiles, uint64_t counted_tiles);
  // Cycles of the SDMA beside which the core stands still.
  struct Waits {
    uint64_t cycles = 0;  // for which it does
    uint64_t tile = 0;    // of these, those for one tile
    uint64_t moved = 0;   // of the SDMA's cycles, those for the bytes that it waits for
    uint64_t last = 0;    // of 255 parts of the core's cycles, those after the last bytes have come
  };
  Waits waits_of(const atalla_launch_work& work, uint32_t resident, uint64_t n, uint64_t bytes, uint64_t sdma) const;
  // For the lines that caches fetch.
  uint64_t fetch_cycles(const atalla_launch_work& work, uint64_t packets) const;
  // Of the core, whose rows for the array and the SDMA engine's want the same port.
  uint64_t port_cycles(const atalla_launch_work& work, uint32_t resident, uint64_t rows, uint64_t core) const;
  // The cycles of the launch out of those of its units.
  void overlap(Charge* charge, uint64_t packets, Waits waits, uint64_t steps, bool uses_exp) const;

  struct Lines {
    bool ideal = true;
    uint64_t bytes = 0;  // of the cache
    uint64_t line_bytes = 1;
    uint64_t ways = 1;
    uint64_t fill_cycles = 0;
  };
  static constexpr uint64_t kPorts = 3;  // of a scratchpad: one for each of its users

  Lines code_;
  Lines words_;
  uint64_t ports_;
  uint64_t banks_;
  std::optional<DramRates> rates_;  // none: every beat takes beat_millicycles_
  uint64_t beat_millicycles_;
  uint64_t setup_cycles_;
  uint64_t tile_bytes_mask_;
  uint64_t bus_bytes_mask_;
  unsigned tile_bytes_shift_;  // of a contiguous SDMA tile of the largest size
  unsigned bus_bytes_shift_;
  uint64_t vector_occupancy_;
  uint64_t vector_latency_;  // scratchpad load, operation, scratchpad store
  uint64_t exp_latency_;
  uint64_t copy_latency_;  // of rows that pass vector registers from one place of the scratchpads to another
  uint64_t tile_rows_;
  uint64_t queue_depth_;  // tiles of an SDMA engine
  uint64_t row_cycles_;
  uint64_t weight_cycles_;
  uint64_t array_latency_;
  uint64_t overhead_;
  uint64_t cores_;
  uint64_t core_start_;
  uint64_t link_bytes_per_cycle_;
  uint64_t link_latency_;
};

}  // namespace atalla::sim
