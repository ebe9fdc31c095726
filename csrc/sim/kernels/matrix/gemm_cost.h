// SPDX-License-Identifier: BSD-3-Clause
//
// What a matrix product costs on the chip: the systolic array and the DRAM traffic of a blocked product whose operands
// pass through the scratchpads. docs/concepts/gemm.md derives the formulas.
#pragma once

#include "sim/kernels/matrix/gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {

// One [m, k] x [k, n] product: array work and the bytes read of both operands.
struct ArrayProduct {
  uint64_t macs;
  uint64_t array_rows;
  uint64_t weight_rows;
  uint64_t a_bytes;
  uint64_t b_bytes;
};

// Weight-stationary: each tile of B, of the array's size, is pushed row by row, then m rows of A stream through it.
//
// Blocking: half of each scratchpad holds the running block, the other half receives the next one. Scratchpad 1 holds a
// block of B, all of k by as many columns of tiles as fit (at least one); scratchpad 0 holds rows of A and the output.
// So B is read once, and A once for every block of B; if all of A fits into its half, A is read once too.
inline ArrayProduct array_product(const atalla_geometry& chip, int64_t m, int64_t n, int64_t k, int64_t a_item,
                                  int64_t b_item) {
  const int64_t half = static_cast<int64_t>(chip.scratchpad_bytes / 2);
  const int64_t k_tiles = ceil_div(k, chip.array_rows), n_tiles = ceil_div(n, chip.array_columns);
  const int64_t tile_column_bytes = max_of(1, k * chip.array_columns * b_item);
  const int64_t tiles_a_block = max_of(1, half / tile_column_bytes);
  const int64_t a_passes = m * k * a_item <= half ? 1 : ceil_div(n_tiles, tiles_a_block);
  ArrayProduct cost;
  cost.macs = static_cast<uint64_t>(m) * n * k;
  cost.array_rows = static_cast<uint64_t>(m) * k_tiles * n_tiles;
  cost.weight_rows = static_cast<uint64_t>(m > 0 ? chip.array_rows : 0) * k_tiles * n_tiles;
  cost.a_bytes = static_cast<uint64_t>(m) * k * a_item * static_cast<uint64_t>(max_of(1, a_passes));
  cost.b_bytes = static_cast<uint64_t>(k) * n * b_item;
  return cost;
}

}  // namespace atalla::sim::ATALLA_ISA
