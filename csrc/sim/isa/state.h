// SPDX-License-Identifier: BSD-3-Clause
//
// Everything that a running program can see or change, and how a run ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/abi/atalla_isa.h"
#include "sim/device/firmware.h"
#include "sim/isa/instruction.h"
#include "sim/isa/scoreboard.h"

namespace atalla::sim::isa {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kCanonicalNan = 0x7FC00000;
// Addresses of firmware services.
inline constexpr uint32_t kServiceAlloc = static_cast<uint32_t>(ATALLA_ISA_SCPAD_ALLOC);
inline constexpr uint32_t kServiceFree = static_cast<uint32_t>(ATALLA_ISA_SCPAD_FREE);
inline constexpr uint32_t kServiceFault = static_cast<uint32_t>(ATALLA_ISA_REPORT_FAULT);
inline constexpr uint32_t kServiceBarrier = static_cast<uint32_t>(ATALLA_ISA_BARRIER);
inline constexpr uint32_t kFirstService = kServiceBarrier;

// What the program shares with others.
struct Memory {
  uint8_t* dram = nullptr;
  uint64_t dram_bytes = 0;  // at most 2^32
  float* pads = nullptr;    // [scratchpad][row][lane], 64-byte aligned
  uint32_t pad_count = 0;
  uint32_t pad_rows = 0;
  ScratchpadAllocator* allocator = nullptr;
  bool rounds = false;  // scpad.st rounds to nearest even (profile rne)

  float* row(uint32_t sid, uint32_t row) const { return place(uint64_t{sid} * pad_rows + row); }
  float* place(uint64_t row) const { return pads + row * kLanes; }  // of those of all scratchpads
};

// The weight buffer: columns in a ring, so that a push moves nothing, and the matrix as rows for gemm.vv, which is
// made again when columns have changed. All of it in blocks of 32 x 32, of which an array of that size has one.
struct Weights {
  static constexpr uint32_t kMost = 2 * kLanes;               // rows and columns
  alignas(64) float columns[2][kMost][kLanes] = {};           // [half of k][column][k]
  alignas(64) float blocks[2][2][kLanes][kLanes] = {};        // [half of k][half of n][k][n]
  alignas(64) uint32_t pairs[2][2][kLanes / 2][kLanes] = {};  // the same in BF16: k in the upper half, k + 1 below
  uint32_t depth = kLanes;                                    // rows of the array, 32 or 64
  uint32_t width = kLanes;                                    // and columns
  uint32_t pushes = 0;                                        // up to 32
  uint32_t first = 0;                                         // ring index of column 0
  uint64_t plain = UINT64_MAX;  // bit of a column: its products with plain values are exact
  uint64_t dots = UINT64_MAX;   // the same, and no sum of them is subnormal
  uint32_t made = 15;           // bit 2 h + n: of a block that shows the columns
  atalla_isa_array array = {};  // with functions: computes instead of the engine; `plain` and `dots` stay 0

  const float* column(uint32_t half, uint32_t n) const { return columns[half][(first + n) & (width - 1)]; }
};

enum class End : uint8_t { kBudget, kHalt, kFault };

enum class FaultKind : uint8_t {
  kNone,
  kIllegal,
  kPastEnd,
  kDivision,
  kMisaligned,
  kDram,
  kScratchpad,
  kTarget,
  kReported,  // by the program: x10 code, x11, x12 values
};

struct Counts {
  uint64_t sdma_bytes_read = 0;  // of DRAM
  uint64_t sdma_bytes_written = 0;
  uint64_t transfers = 0;
  uint64_t services = 0;
  uint64_t taken = 0;            // branches
  uint64_t page_bytes = 0;       // of the scratchpads, that the program has now
  uint64_t most_page_bytes = 0;  // had at once
};

// A scratchpad page that the program got from the firmware.
struct Page {
  uint32_t sid;
  uint32_t address;
  uint32_t bytes;
};

struct State {
  alignas(64) float v[260][kLanes] = {};  // from 256 on: micro_op.h
  uint32_t x[257] = {};
  uint32_t m[16] = {UINT32_MAX};
  Weights weights;
  Memory memory;
  Scoreboard scoreboard;
  Counts counts;
  std::vector<Page> pages;
  uint64_t machine = 0;  // the machine's handle; 0: a launch
  std::string refusal;   // why the firmware refused the last page that it refused
  bool timing = true;
  uint32_t core = 0;       // which one this is
  bool has_peers = false;  // there are other cores
  bool waits = false;      // for the others, at a barrier
  bool blocked = false;    // by a transfer that has not started

  uint32_t packet = 0;  // the next one; at a fault the one that faulted
  uint64_t left = 0;    // of the budget of the latest run
  End end = End::kBudget;
  FaultKind fault = FaultKind::kNone;
  uint8_t fault_slot = 0;
  uint64_t fault_address = 0;
};

}  // namespace atalla::sim::isa
