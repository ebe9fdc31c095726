// SPDX-License-Identifier: BSD-3-Clause
//
// How generated code cuts products, for the counts of costs: the constants of
// torch_atalla/compiler/targets/chip/kernels/gemm_plan.py, which test/isa/test_isa_timing.py compares with these.
#pragma once

#include <cstdint>

#include "sim/abi/atalla_schedule.h"

namespace atalla::sim {

inline constexpr int64_t kBlockTiles = 6;      // row tiles of a block, whose results stay in vector registers
inline constexpr int64_t kDeepBlockTiles = 5;  // where a pass takes pairs of vectors of k
inline constexpr int64_t kWideBlockTiles = 3;  // where a result is a pair of vectors
inline constexpr int64_t kPanelTiles = 16;     // of packed weights
inline constexpr int64_t kStageRows = 384;     // of scratchpad 0, in front of the rows of A: two buffers for results
inline constexpr int64_t kBiasRows = 1024;  // of scratchpad 1, in front of the panels of weights; a tile is free behind

inline int64_t scratchpad_rows(const atalla_geometry& chip) {
  const uint64_t row_bytes = uint64_t{chip.sdma_tile_columns} * chip.sdma_element_bytes;
  return static_cast<int64_t>(chip.scratchpad_bytes / row_bytes);
}

// Elements of k in a tile of operands: of an array that code gives pairs of vectors, 32 x 32 as well.
inline int64_t tile_depth(const atalla_geometry& chip) {
  return chip.array_rows == 2 * chip.vector_lanes ? chip.vector_lanes : chip.array_rows;
}

// And those of n.
inline int64_t tile_width(const atalla_geometry& chip) {
  return chip.array_columns == 2 * chip.vector_lanes ? chip.vector_lanes : chip.array_columns;
}

// Rows of scratchpad 1 for panels of weights.
inline uint64_t panel_room(const atalla_geometry& chip) {
  const int64_t rows = scratchpad_rows(chip) - kBiasRows - tile_width(chip);
  return rows > 0 ? static_cast<uint64_t>(rows) : 0;
}

// True if so many tiles of rows, each of `depth` rows of the scratchpad, stay there for all panels of weights.
inline bool rows_stay(const atalla_geometry& chip, int64_t tiles, int64_t depth, int64_t block_tiles) {
  return tiles <= block_tiles || (depth > 0 && tiles <= (scratchpad_rows(chip) - kStageRows) / depth);
}

// A pass of rows through the array takes these operands; pairs_of of gemm_plan.py decides the same.
struct Passes {
  bool deep, wide;      // two tiles of k; two column tiles
  int64_t depth;        // elements of k
  int64_t width;        // columns
  int64_t block_tiles;  // row tiles of a block
};

// For a product [m, k] x [k, n] whose blocks have at least `line` rows.
inline Passes passes_of(const atalla_geometry& chip, int64_t n, int64_t k, int64_t line = 1) {
  constexpr int64_t kTiles[] = {kBlockTiles, kDeepBlockTiles, kWideBlockTiles, kWideBlockTiles};
  const int64_t tile_k = tile_depth(chip), tile_n = tile_width(chip);
  const int64_t k_tiles = (k + tile_k - 1) / tile_k, n_tiles = (n + tile_n - 1) / tile_n;
  const int64_t paired = n_tiles + n_tiles % 2 < 4 ? n_tiles + n_tiles % 2 : 4;
  const int64_t room = scratchpad_rows(chip) - kBiasRows - 2 * tile_n;
  bool deep = tile_k != chip.array_rows && k_tiles > 1;
  bool wide = tile_n != chip.array_columns && n_tiles > 1 && paired * k_tiles * tile_k <= room;
  const auto tiles = [&] { return kTiles[(deep ? 1 : 0) + (wide ? 2 : 0)]; };
  while (line > tiles() * chip.sdma_tile_rows && (deep || wide)) (wide ? wide : deep) = false;
  return {deep, wide, deep ? 2 * tile_k : tile_k, wide ? 2 * tile_n : tile_n, tiles()};
}

}  // namespace atalla::sim
