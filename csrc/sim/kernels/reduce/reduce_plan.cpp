// SPDX-License-Identifier: BSD-3-Clause
#include "sim/kernels/reduce/reduce.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Up to so many reduced elements an output, rows are too short to fill vector lanes.
constexpr int64_t kShortRow = 32;
constexpr int64_t kFewOutputs = 8;

void start_space(Space& space, int n_operands) {
  space.n_operands = n_operands;
  space.ndim = 0;
  space.numel = 1;
}

void finish_space(Space& space) {
  if (space.ndim > 0) return;
  space.ndim = 1;
  space.sizes[0] = 1;
  for (int k = 0; k < space.n_operands; ++k) space.strides[k][0] = 0;
}

}  // namespace

void plan_reduce(const atalla_launch_desc& desc, int n_outputs, bool ordered, ReducePlan& plan) {
  const atalla_operand& in = desc.operands[n_outputs];
  const int64_t mask = ReduceSumParameters::read(desc).reduced;
  Space& kept = plan.kept;
  Space& reduced = plan.reduced;
  start_space(kept, 1 + n_outputs);
  start_space(reduced, 1);
  for (int d = in.ndim - 1; d >= 0; --d) {
    const bool is_reduced = mask >> d & 1;
    Space& space = is_reduced ? reduced : kept;
    space.numel *= in.sizes[d];
    if (in.sizes[d] == 1) continue;
    space.sizes[space.ndim] = in.sizes[d];
    space.strides[0][space.ndim] = in.strides[d];
    for (int k = 0; !is_reduced && k < n_outputs; ++k) space.strides[k + 1][space.ndim] = desc.operands[k].strides[d];
    ++space.ndim;
  }
  finish_space(kept);
  finish_space(reduced);
  plan.count = reduced.numel;
  if (kept.ndim > 1) {
    order_dims(kept);
    merge_dims(kept);
  }
  if (reduced.ndim > 1) {
    if (!ordered) order_dims(reduced);
    merge_dims(reduced);
  }
  const bool kept_contiguous = kept.strides[0][0] < reduced.strides[0][0] || plan.count == 1;
  plan.columns = kept.sizes[0] >= kFewOutputs && (kept_contiguous || plan.count <= kShortRow);

  int64_t tile = kTileOutputs;
  if (!plan.columns && plan.count > 0) {
    tile = kParallelGrain / plan.count;
    tile = tile < 1 ? 1 : tile > kTileOutputs ? kTileOutputs : tile;
  }
  if (tile > kept.sizes[0]) tile = kept.sizes[0];
  kept.block[0] = tile;
  kept.block[1] = kept.block[2] = 1;
  kept.n_blocks = tile == 0 ? 0 : (kept.sizes[0] + tile - 1) / tile;
  for (int d = 1; d < kept.ndim; ++d) kept.n_blocks *= kept.sizes[d];

  if (plan.count == 0) {
    reduced.n_blocks = 0;
  } else if (plan.columns) {
    reduced.block[0] = reduced.sizes[0] < kLeafRows ? reduced.sizes[0] : kLeafRows;
    reduced.block[1] = reduced.block[2] = 1;
    reduced.n_blocks = (reduced.sizes[0] + kLeafRows - 1) / kLeafRows;
    for (int d = 1; d < reduced.ndim; ++d) reduced.n_blocks *= reduced.sizes[d];
  } else {
    plan_blocks(reduced, false);
  }
  const int64_t task_work = tile * plan.count;
  plan.parts = 1;
  if (kept.n_blocks < 16) {
    plan.parts = task_work / (2 * kParallelGrain);
    if (plan.parts > kMaxParts) plan.parts = kMaxParts;
    if (plan.parts > reduced.n_blocks) plan.parts = reduced.n_blocks;
    if (plan.parts < 1) plan.parts = 1;
  }
  const int64_t part_work = task_work / plan.parts;
  plan.grain = part_work >= kParallelGrain ? 1 : kParallelGrain / (part_work > 0 ? part_work : 1);
}

}  // namespace atalla::sim::ATALLA_ISA
