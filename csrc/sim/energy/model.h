// SPDX-License-Identifier: BSD-3-Clause
//
// The energy of a chip's work: counts of events times the prices of the chip file. docs/concepts/energy.md explains it.
// Integer arithmetic throughout, so that every machine gets the same digits. Amounts that leave 64 bits are the largest
// ones.
#pragma once

#include <cstdint>

#include "sim/abi/atalla.h"
#include "sim/device/config.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim {

// The work that costs energy.
struct EnergyEvents {
  uint64_t stream_bytes_read = 0;  // of DRAM, in contiguous tiles
  uint64_t stream_bytes_written = 0;
  uint64_t dram_activates = 0;  // of DRAM, access by access: rows opened, column accesses
  uint64_t dram_reads = 0;
  uint64_t dram_writes = 0;
  uint64_t moved_bytes = 0;         // between DRAM and scratchpads
  uint64_t network_link_bytes = 0;  // of these, times the links that they pass
  uint64_t network_router_bytes = 0;
  uint64_t touched_bytes = 0;  // of scratchpads, by vector units
  uint64_t vector_ops = 0;     // instructions other than exp
  uint64_t exp_ops = 0;
  uint64_t array_rows = 0;  // with rows of weights; those of pairs of vectors count twice
  uint64_t packets = 0;
  uint64_t macs = 0;
  atalla_dtype mac_dtype = ATALLA_BF16;
  uint64_t link_bytes = 0;  // to and from other chips
};

class EnergyModel {
 public:
  explicit EnergyModel(const ChipConfig& config);

  // All parts except standby and leakage.
  atalla_energy of(const EnergyEvents& events) const;
  // Standby and leakage, which take the same in each cycle.
  atalla_energy idle(uint64_t cycles) const;

  // Bytes that the SDMA engines of core 0 move between DRAM and the scratchpads, in streams of contiguous tiles: each
  // memory channel the same share.
  void move(uint64_t read, uint64_t written, EnergyEvents* events) const;
  // Of a launch of this work, but for what it moves.
  EnergyEvents computed(const Work& work, atalla_dtype dtype) const;

 private:
  uint64_t mac_price(atalla_dtype dtype) const;
  // `of` in numbers of 64 or 128 bits.
  template <class Amount>
  atalla_energy priced(const EnergyEvents& events) const;

  const ChipConfig& config_;
  uint64_t leakage_uw_;
  unsigned most_bits_;  // of counts whose energy fits 64 bits
  bool is_bus_;
  unsigned bus_shift_;  // of the bytes of a beat, and of a row of a scratchpad
  unsigned row_shift_;
  uint64_t channels_;
  uint64_t links_ = 0;  // of the ways between all channels and core 0, together
  uint64_t routers_ = 0;
};

}  // namespace atalla::sim
