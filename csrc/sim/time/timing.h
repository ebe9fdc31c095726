// SPDX-License-Identifier: BSD-3-Clause
//
// Cycles of copies and messages, and of launches without code of the chip, which are assumed to run at its full rates.
// docs/concepts/timing.md derives them. Integer arithmetic throughout, so that every machine gets the same cycles.
#pragma once

#include <cstdint>

#include "sim/device/config.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim {

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

struct Charge {
  uint64_t cycles = 0;  // from the launch's first to its last cycle
  uint64_t sdma_cycles = 0;
  uint64_t vector_cycles = 0;
  uint64_t array_cycles = 0;
  uint64_t link_cycles = 0;       // of the link to other chips
  uint32_t scratchpad_bytes = 0;  // occupied from the first to the last cycle

  bool operator==(const Charge&) const = default;
};

class Timing {
 public:
  explicit Timing(const ChipConfig& config);

  // SDMA and core work side by side, and the slower one sets the pace. The core's units work one after the
  // other.
  Charge launch(const Work& work) const;

  // A copy of `rows` rows that reads and writes DRAM (or only one of both, the other end being the host's).
  Charge copy(uint64_t row_bytes, uint64_t rows, bool reads, bool writes) const;

  // `messages` messages over the link, one after the other, each of `bytes` bytes (possibly none) that are read from
  // or written to DRAM while they pass.
  Charge link(uint64_t bytes, uint64_t messages, bool reads, bool writes) const;

 private:
  uint64_t bus_cycles(uint64_t beats) const;
  uint64_t tiles_of(uint64_t bytes) const { return (bytes + tile_bytes_mask_) >> tile_bytes_shift_; }
  uint64_t beats_of(uint64_t bytes) const { return (bytes + bus_bytes_mask_) >> bus_bytes_shift_; }

  uint64_t beat_millicycles_;
  uint64_t setup_cycles_;
  uint64_t tile_bytes_mask_;
  uint64_t bus_bytes_mask_;
  unsigned tile_bytes_shift_;  // of a contiguous SDMA tile of the largest size
  unsigned bus_bytes_shift_;
  uint64_t vector_occupancy_;
  uint64_t vector_latency_;  // scratchpad load, operation, scratchpad store
  uint64_t row_cycles_;
  uint64_t array_latency_;
  uint64_t overhead_;
  uint64_t link_bytes_per_cycle_;
  uint64_t link_latency_;
};

}  // namespace atalla::sim
