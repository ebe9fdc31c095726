// SPDX-License-Identifier: BSD-3-Clause
//
// What the scoreboard must know of one packet, found when the program is decoded.
#pragma once

#include <cstdint>

#include "sim/isa/instruction.h"

namespace atalla::sim::isa {

enum class Access : uint8_t { kTileLoad, kTileStore, kWordLoad, kWordStore };

// A tile or word that an instruction moves. Registers: words rs1; tiles rs1, rs2, rs3.
struct MemoryUse {
  Access access{};
  uint8_t bytes = 0;  // of words
  uint8_t a = 0;
  uint8_t b = 0;
  uint8_t c = 0;
  int32_t imm = 0;
};

// What rs3 says of a tile.
struct Tile {
  uint32_t sid, rows, columns, length;
  uint64_t dram_bytes;  // from the first to past the last

  explicit Tile(uint32_t meta) : sid(meta >> 30), rows((meta >> 25 & 31) + 1), columns((meta >> 20 & 31) + 1) {
    length = (meta & 0xFFFFF) != 0 ? (meta & 0xFFFFF) + 1 : columns;
    dram_bytes = 2 * (uint64_t{rows - 1} * length + columns);
  }
};

// A scratchpad row that vreg.ld or vreg.st moves.
struct RowUse {
  bool store = false;
  uint8_t sid = 0;
  uint8_t a = 0;  // registers rs1, rs2
  uint8_t b = 0;
  uint8_t result = 4;  // of a load, its place in Issue::result; 4: it has none
  uint32_t first = 0;  // row of the scratchpad, among those of all

  // The row in its scratchpad. Of 32 bits: rs2 may be negative.
  uint32_t number(const uint32_t* x) const { return (x[a] >> 6) + x[b]; }
  uint64_t place(const uint32_t* x) const { return uint64_t{first} + number(x); }
};

inline constexpr uint16_t kNoRegister = kRegisters;  // written by what has no result, read by nobody

inline constexpr unsigned kUnitBits = 4;  // of a unit's number, below a cycle
static_assert(kUnitCount <= 1 << kUnitBits);

inline constexpr int kMostResults = kSlots + 1;  // the array takes one instruction, whose result may be a pair

struct Issue {
  uint8_t wait_groups = 0;  // of four entries of wait
  uint8_t results = 0;
  uint8_t units = 0;
  uint8_t rows = 0;
  uint8_t uses = 0;
  bool needs_ports = false;  // its rows and the SDMA engine together want more ports than a scratchpad has
  uint8_t sources = 0;       // the first entries of wait are sources, the others destinations
  uint8_t instructions = 0;  // that are not nop.s
  RowUse row[2];
  uint16_t wait[20] = {};  // registers in the common numbering; filled up with x0, which is always ready
  uint16_t result[kMostResults] = {kNoRegister, kNoRegister, kNoRegister, kNoRegister, kNoRegister};
  uint64_t ready[kMostResults] = {};  // latency << kUnitBits | unit that makes it
  uint8_t unit[4] = {};               // those that stay occupied for more than a cycle
  uint32_t occupancy[4] = {};
  MemoryUse use[2];
};

}  // namespace atalla::sim::isa
