// SPDX-License-Identifier: BSD-3-Clause
#include "sim/kernels/base/loader.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// A run this long along dimension 0 is worth a block of its own.
constexpr int64_t kLongRow = 256;
// Block extents where some operand runs along another dimension than the first operand does.
constexpr int64_t kTransposeInner = 64;
constexpr int64_t kTransposeOuter = 16;

// Dimension `a` stands inside dimension `b` and should not: a later operand decides only where earlier ones broadcast.
bool out_of_order(const Space& space, int a, int b) {
  for (int k = 0; k < space.n_operands; ++k) {
    const int64_t sa = space.strides[k][a], sb = space.strides[k][b];
    if (sa == 0 || sb == 0 || sa == sb) continue;
    return sa > sb;
  }
  return false;
}

void swap_dims(Space& space, int a, int b) {
  const int64_t size = space.sizes[a];
  space.sizes[a] = space.sizes[b];
  space.sizes[b] = size;
  for (int k = 0; k < space.n_operands; ++k) {
    const int64_t stride = space.strides[k][a];
    space.strides[k][a] = space.strides[k][b];
    space.strides[k][b] = stride;
  }
}

}  // namespace

void order_dims(Space& space) {
  for (int i = 1; i < space.ndim; ++i) {
    for (int j = i; j > 0 && out_of_order(space, j - 1, j); --j) swap_dims(space, j - 1, j);
  }
}

void merge_dims(Space& space) {
  int last = 0;
  for (int d = 1; d < space.ndim; ++d) {
    bool mergeable = true;
    for (int k = 0; k < space.n_operands && mergeable; ++k) {
      mergeable = space.strides[k][d] == space.strides[k][last] * space.sizes[last];
    }
    if (mergeable) {
      space.sizes[last] *= space.sizes[d];
      continue;
    }
    ++last;
    space.sizes[last] = space.sizes[d];
    for (int k = 0; k < space.n_operands; ++k) space.strides[k][last] = space.strides[k][d];
  }
  space.ndim = last + 1;
}

namespace {

// The dimension along which some operand runs contiguously while it strides along dimension 0; 0: none.
int transposed_dim(const Space& space) {
  for (int k = 0; k < space.n_operands; ++k) {
    if (space.strides[k][0] == 0 || space.strides[k][0] == 1) continue;
    for (int d = 1; d < space.ndim; ++d) {
      if (space.strides[k][d] == 1 && space.sizes[d] > 1) return d;
    }
  }
  return 0;
}

}  // namespace

void plan_blocks(Space& space, bool transpose) {
  int64_t* block = space.block;
  block[0] = space.sizes[0] < kBlockElements ? space.sizes[0] : kBlockElements;
  block[1] = block[2] = 1;
  if (space.ndim > 1 && space.sizes[0] > 1) {
    if (const int d = transpose ? transposed_dim(space) : 0) {
      if (d != 1) swap_dims(space, 1, d);
      block[0] = space.sizes[0] < kTransposeInner ? space.sizes[0] : kTransposeInner;
      const int64_t rows = kBlockElements / block[0];
      const int64_t wanted = rows < kTransposeOuter ? kTransposeOuter : rows;
      block[1] = space.sizes[1] < wanted ? space.sizes[1] : wanted;
    } else if (block[0] == space.sizes[0] && block[0] < kLongRow) {
      const int64_t rows = kBlockElements / block[0];
      block[1] = space.sizes[1] < rows ? space.sizes[1] : rows;
      if (space.ndim > 2 && block[1] == space.sizes[1]) {
        const int64_t planes = kBlockElements / (block[0] * block[1]);
        block[2] = space.sizes[2] < planes ? space.sizes[2] : planes;
      }
    }
  }
  space.n_blocks = 1;
  for (int d = 0; d < space.ndim; ++d) {
    const int64_t extent = d < kBlockDims ? block[d] : 1;
    space.n_blocks *= (space.sizes[d] + extent - 1) / extent;
  }
}

void make_space(const atalla_launch_desc& desc, Space& space) {
  const atalla_operand& first = desc.operands[0];
  space.n_operands = desc.n_operands;
  space.ndim = 0;
  space.numel = 1;
  for (int d = first.ndim - 1; d >= 0; --d) {
    space.numel *= first.sizes[d];
    if (first.sizes[d] == 1) continue;
    space.sizes[space.ndim] = first.sizes[d];
    for (int k = 0; k < desc.n_operands; ++k) {
      space.strides[k][space.ndim] = desc.operands[k].immediate ? 0 : desc.operands[k].strides[d];
    }
    ++space.ndim;
  }
  if (space.ndim == 0) {
    space.ndim = 1;
    space.sizes[0] = 1;
    for (int k = 0; k < desc.n_operands; ++k) space.strides[k][0] = 0;
  }
  if (space.numel == 0) {
    space.n_blocks = 0;
    return;
  }
  if (space.ndim > 1) {
    order_dims(space);
    merge_dims(space);
  }
  plan_blocks(space, true);
}

void locate_block(const Space& space, int64_t b, Block& block) {
  block.sizes[0] = block.sizes[1] = block.sizes[2] = 1;
  block.numel = 1;
  for (int d = 0; d < space.ndim; ++d) {
    const int64_t extent = d < kBlockDims ? space.block[d] : 1;
    int64_t position = b;
    if (d + 1 < space.ndim) {
      const int64_t count = (space.sizes[d] + extent - 1) / extent;
      const int64_t next = b / count;
      position = b - next * count;
      b = next;
    }
    const int64_t start = position * extent;
    block.index[d] = start;
    if (d < kBlockDims) {
      block.sizes[d] = space.sizes[d] - start < extent ? space.sizes[d] - start : extent;
      block.numel *= block.sizes[d];
    }
  }
}

}  // namespace atalla::sim::ATALLA_ISA
