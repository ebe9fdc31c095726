// SPDX-License-Identifier: BSD-3-Clause
//
// What a matrix product costs on the chip: the systolic array and the DRAM traffic of a blocked product whose operands
// pass through the scratchpads. docs/concepts/gemm.md derives the formulas.
#pragma once

#include <algorithm>

#include "sim/kernels/matrix/gemm_vector.h"
#include "sim/time/product_plan.h"

namespace atalla::sim::ATALLA_ISA {

// One [m, k] x [k, n] product: array work and the bytes read of both operands.
struct ArrayProduct {
  uint64_t macs;
  uint64_t array_rows;
  uint64_t weight_rows;
  uint64_t packets;
  uint64_t a_bytes;
  uint64_t b_bytes;
};

// Weight-stationary: each tile of B, of the array's size, is pushed row by row, once for each block of rows of the
// result that fits the registers; then the block's rows of A stream through it. A B whose columns are contiguous is
// transposed first, tile by tile, by the array. `blocks` is 0 for as many as m rows need, `rows` are the m rows with
// those that code computes beside them (0: none).
//
// Packets beside those rows: a few per tile of B, the stores of the result, the ends of blocks.
//
// Scratchpad 1 holds a panel of B, all of k by as many columns of tiles as fit (at least one), behind 1,056 rows for
// the bias and a tile; scratchpad 0 holds rows of A, behind 384 rows for results. So B is read once, and A once for
// every panel of B; if all of A fits, or if it has one block of rows only, A is read once too.
inline ArrayProduct array_product(const atalla_geometry& chip, int64_t m, int64_t n, int64_t k, int64_t a_item,
                                  int64_t b_item, bool transposes, int64_t blocks = 0, int64_t rows = 0,
                                  int64_t line = 1) {
  const int64_t tile_k = tile_depth(chip), tile_n = tile_width(chip);
  const int64_t k_tiles = ceil_div(k, tile_k), n_tiles = ceil_div(n, tile_n);
  const Passes pass = passes_of(chip, n, k, line);
  const int64_t k_passes = ceil_div(k, pass.depth), n_passes = ceil_div(n, pass.width);
  const int64_t depth = max_of(1, k_tiles * tile_k);  // rows of a scratchpad
  const int64_t panel = max_of(1, (scratchpad_rows(chip) - kBiasRows - tile_n) / depth);
  const bool stays = rows_stay(chip, ceil_div(m, tile_k), depth, pass.block_tiles);
  const int64_t a_passes = stays ? 1 : ceil_div(n_tiles, pass.wide ? max_of(2, panel - panel % 2) : panel);
  ArrayProduct cost;
  cost.macs = static_cast<uint64_t>(m) * n * k;
  if (rows == 0) rows = m;
  cost.array_rows = static_cast<uint64_t>(rows) * k_passes * n_passes;
  if (blocks == 0) blocks = ceil_div(m, pass.block_tiles * tile_k);
  const auto tiles = static_cast<uint64_t>(k_tiles) * n_tiles;
  const auto passes = static_cast<uint64_t>(k_passes) * n_passes * static_cast<uint64_t>(blocks);
  cost.weight_rows = static_cast<uint64_t>(pass.wide ? pass.width : tile_k) * passes;
  const auto columns = static_cast<uint64_t>(n_tiles);
  const bool pairs = pass.deep || pass.wide;
  const uint64_t ends = static_cast<uint64_t>(n_passes) * static_cast<uint64_t>(blocks);
  cost.packets = (pairs ? 7 : 5) * passes + (pairs ? 140 : 30) * ends + static_cast<uint64_t>(rows) * columns;
  // The sums of a pass add to those of the one before, which few rows do not hide.
  const int64_t last = rows - max_of(0, blocks - 1) * pass.block_tiles * tile_k;
  const uint64_t apart =
      static_cast<uint64_t>(pass.wide ? pass.width : tile_k) + static_cast<uint64_t>(max_of(1, last));
  cost.packets += Cost(chip).array_waits(static_cast<uint64_t>(k_passes) * n_passes, apart);
  if (transposes) {
    cost.weight_rows += static_cast<uint64_t>(tile_k) * tiles;
    cost.array_rows += static_cast<uint64_t>(tile_n) * tiles;
    cost.packets += 48 * tiles + Cost(chip).array_waits(tiles, 0);
  }
  cost.a_bytes = static_cast<uint64_t>(m) * k * a_item * static_cast<uint64_t>(max_of(1, a_passes));
  cost.b_bytes = static_cast<uint64_t>(k) * n * b_item;
  return cost;
}

// The first vector instruction that ends a product, and the stores of results, pass beside the array's rows and the
// vector instructions that follow. program: a vector program has counted a packet for each of its stores.
inline void hide_stores(uint64_t vectors, bool program, Cost& cost) {
  const uint64_t occupancy = cost.chip.vector_occupancy_cycles;
  const uint64_t hidden = std::min(occupancy * cost.vector_ops, vectors * (occupancy + (program ? 2 : 1)));
  cost.packets -= std::min(cost.packets, hidden);
}

// A batched product of the first two inputs, `passes` times: all but what is written and the vector work. Gives the
// vector instructions that pass over the result once; 0: there is nothing to do.
inline uint64_t cost_product(const atalla_launch_desc& desc, uint64_t passes, Cost& cost) {
  const atalla_operand &out = desc.operands[0], &a = desc.operands[desc.n_outputs];
  const atalla_operand& b = desc.operands[desc.n_outputs + 1];
  int64_t batch = out.sizes[0], m = out.sizes[1];
  const int64_t n = out.sizes[2], k = a.sizes[2];
  if (batch <= 0 || m <= 0 || n <= 0) return 0;
  if (b.strides[0] == 0) {  // one B for all batches stays in its scratchpad
    m *= batch;
    batch = 1;
  }
  const bool transposes = b.strides[1] != 1 && n > 1 && k > 1;
  const auto rows = static_cast<int64_t>(cost.computed_rows(m));
  const ArrayProduct product =
      array_product(cost.chip, m, n, k, dtype_size(a.dtype), dtype_size(b.dtype), transposes, 0, rows);
  const uint64_t count = static_cast<uint64_t>(batch);
  cost.macs = product.macs * passes * count;
  cost.array_rows = product.array_rows * passes * count;
  cost.weight_rows = product.weight_rows * passes * count;
  cost.packets = product.packets * passes * count;
  cost.bytes_read = (product.a_bytes + product.b_bytes) * count;
  return count * static_cast<uint64_t>(m) * cost.vectors(n);
}

}  // namespace atalla::sim::ATALLA_ISA
