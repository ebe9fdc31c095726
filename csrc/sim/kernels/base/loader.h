// SPDX-License-Identifier: BSD-3-Clause
//
// The iteration space of an elementwise kernel, cut into blocks that fit in L1, and the loading of an operand's part of
// a block into the dtype in which the kernel computes.
#pragma once

#include "sim/kernels/base/convert.h"
#include "sim/kernels/base/operand.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int64_t kBlockElements = 1024;
// Elements that one thread takes at least: below this, waking another thread costs more than it saves.
inline constexpr int64_t kParallelGrain = 32768;

// The common index space of all operands: dimensions of size 1 dropped, ordered by the strides of the first operands
// (innermost first), and merged where every operand allows it. At least one dimension.
struct Space {
  int ndim;
  int n_operands;
  int64_t numel;
  int64_t sizes[ATALLA_MAX_DIMS];
  int64_t strides[ATALLA_MAX_OPERANDS][ATALLA_MAX_DIMS];
  int64_t block[kBlockDims];  // extent of a full block along dimensions 0, 1 and 2
  int64_t n_blocks;
};

// Where block b begins (index[d] for every dimension) and how large it is.
struct Block {
  int64_t index[ATALLA_MAX_DIMS];
  int64_t sizes[kBlockDims];
  int64_t numel;
};

// The space of operands that have the sizes of operand 0, or are immediate.
void make_space(const atalla_launch_desc& desc, Space& space);

// The steps of make_space, for kernels that build a space of their own: order dimensions by stride; merge those that
// every operand walks as one; choose `block` and count blocks, with blocks in which both of two crosswise contiguous
// operands fill cache lines if `transpose`. Without `transpose` every block is a run of the space's linear index.
void order_dims(Space& space);
void merge_dims(Space& space);
void plan_blocks(Space& space, bool transpose);

void locate_block(const Space& space, int64_t b, Block& block);

// The offset, in elements, of a block's first element in operand k.
inline int64_t block_offset(const Space& space, const Block& block, int k) {
  int64_t offset = 0;
  for (int d = 0; d < space.ndim; ++d) offset += block.index[d] * space.strides[k][d];
  return offset;
}

// True when operand k's part of the block is one contiguous run, in the block's own order.
inline bool block_dense(const Space& space, const Block& block, int k) {
  const int64_t* s = space.strides[k];
  int64_t expected = 1;
  const int dims = space.ndim < kBlockDims ? space.ndim : kBlockDims;
  for (int d = 0; d < dims; ++d) {
    if (block.sizes[d] != 1 && s[d] != expected) return false;
    expected *= block.sizes[d];
  }
  return true;
}

// True when operand k is one value throughout every block.
inline bool block_uniform(const Space& space, int k) {
  const int dims = space.ndim < kBlockDims ? space.ndim : kBlockDims;
  for (int d = 0; d < dims; ++d) {
    if (space.strides[k][d] != 0 && space.block[d] != 1) return false;
  }
  return true;
}

}  // namespace atalla::sim::ATALLA_ISA
