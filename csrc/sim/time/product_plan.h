// SPDX-License-Identifier: BSD-3-Clause
//
// How generated code cuts products, for the counts of costs: the constants of
// torch_atalla/compiler/targets/chip/kernels/gemm_plan.py, which test/isa/test_isa_timing.py compares with these.
#pragma once

#include <cstdint>

#include "sim/abi/atalla_schedule.h"

namespace atalla::sim {

inline constexpr int64_t kBlockTiles = 6;   // row tiles of a block, whose results stay in vector registers
inline constexpr int64_t kPanelTiles = 16;  // of packed weights
inline constexpr int64_t kStageRows = 384;  // of scratchpad 0, in front of the rows of A: two buffers for results
inline constexpr int64_t kBiasRows = 1024;  // of scratchpad 1, in front of the panels of weights; a tile is free behind

inline int64_t scratchpad_rows(const atalla_geometry& chip) {
  const uint64_t row_bytes = uint64_t{chip.sdma_tile_columns} * chip.sdma_element_bytes;
  return static_cast<int64_t>(chip.scratchpad_bytes / row_bytes);
}

// Rows of scratchpad 1 for panels of weights.
inline uint64_t panel_room(const atalla_geometry& chip) {
  const int64_t rows = scratchpad_rows(chip) - kBiasRows - chip.array_columns;
  return rows > 0 ? static_cast<uint64_t>(rows) : 0;
}

// True if so many tiles of rows, each of `depth` rows of the scratchpad, stay there for all panels of weights.
inline bool rows_stay(const atalla_geometry& chip, int64_t tiles, int64_t depth) {
  return tiles <= kBlockTiles || (depth > 0 && tiles <= (scratchpad_rows(chip) - kStageRows) / depth);
}

}  // namespace atalla::sim
