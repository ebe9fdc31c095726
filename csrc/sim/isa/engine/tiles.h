// SPDX-License-Identifier: BSD-3-Clause
//
// What SDMA moves: tiles of BF16 in DRAM, of FP32 in a scratchpad.
#pragma once

#include "sim/isa/engine/vector.h"

namespace atalla::sim::isa::ATALLA_ISA {
namespace {

inline void load_tile(const Memory& memory, const Tile& tile, uint32_t pad, uint32_t dram) {
  const uint8_t* from = memory.dram + dram;
  for (uint32_t r = 0; r < tile.rows; ++r, from += uint64_t{tile.length} * 2) {
    float* to = memory.row(tile.sid, (pad >> 6) + r);
    uint16_t halves[kLanes];
    const uint16_t* source = reinterpret_cast<const uint16_t*>(from);
    if (tile.columns != kLanes) {
      memcpy(halves, from, tile.columns * 2);
      source = halves;
    }
    const F low = floats(widen(source) << 16), high = floats(widen(source + 16) << 16);
    store_masked(to, tile.columns == kLanes ? UINT32_MAX : (1u << tile.columns) - 1, low, high);
  }
}

// FP32 bits to BF16 bits: truncated, or to nearest even, where a NaN stays one.
ATALLA_INLINE U narrow(F x, bool rounds) {
  const U b = bits(x);
  if (!rounds) return b >> 16;
  const F rounded = floats((b + 0x7FFFu + ((b >> 16) & 1u)) >> 16), nan = floats((b >> 16) | 0x40u);
  return bits(choose(x == x, rounded, nan));
}

inline void store_tile(const Memory& memory, const Tile& tile, uint32_t pad, uint32_t dram) {
  uint8_t* to = memory.dram + dram;
  for (uint32_t r = 0; r < tile.rows; ++r, to += uint64_t{tile.length} * 2) {
    const float* from = memory.row(tile.sid, (pad >> 6) + r);
    uint16_t halves[kLanes];
    store_halves(halves, narrow(load(from), memory.rounds));
    store_halves(halves + 16, narrow(load(from + 16), memory.rounds));
    memcpy(to, halves, tile.columns * 2);
  }
}

}  // namespace
}  // namespace atalla::sim::isa::ATALLA_ISA
