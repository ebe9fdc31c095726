// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions: how an input's dimensions are walked. A reduction itself is given by its passes (reduce_passes.h).
//
// Outputs are taken in tiles along the kept dimension with the smallest stride. A tile is reduced in one of two ways:
// by columns (a row of the tile's inputs is accumulated onto a row of accumulators: the kept dimension is the
// contiguous one, or few elements are reduced), or by rows (each output's inputs are reduced with vector lanes).
// Partial results of a fixed number of elements are combined pairwise, in an order that depends on shapes and strides
// alone.
#pragma once

#include "sim/kernels/base/common.h"
#include "sim/kernels/base/loader.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int64_t kTileOutputs = 256;
inline constexpr int64_t kLeafRows = 32;  // rows accumulated serially when reducing by columns
inline constexpr int kMaxLevels = 40;     // of pairwise combination: log2 of the number of leaves
inline constexpr int64_t kMaxParts = 64;  // in which one tile's reduced range is split over threads

struct ReducePlan {
  Space kept;     // operands: the input, then the outputs
  Space reduced;  // operand 0: the input
  int64_t count;  // elements reduced into one output
  bool columns;
  int64_t parts;  // of the reduced range, each a task of its own
  int64_t grain;  // tasks that a thread takes at least
};

// `ordered`: the linear index within the reduced dimensions must be row-major (argmax).
void plan_reduce(const atalla_launch_desc& desc, int n_outputs, bool ordered, ReducePlan& plan);

}  // namespace atalla::sim::ATALLA_ISA
