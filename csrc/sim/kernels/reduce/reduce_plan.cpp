// SPDX-License-Identifier: BSD-3-Clause
#include "kernel_parameters.h"
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

void cost_reduce(const atalla_launch_desc& desc, uint64_t vector_ops, uint64_t exp_ops, uint64_t passes, Cost& cost) {
  const atalla_operand& in = desc.operands[desc.n_operands - 1];
  for (int k = 0; k < desc.n_outputs; ++k) cost.bytes_written += operand_bytes(desc.operands[k]);
  cost.bytes_read += passes * operand_bytes(in);
  const auto outputs = static_cast<uint64_t>(element_count(desc.operands[0]));
  const uint64_t vectors = cost.vectors(element_count(in));
  // A reduction over the lanes for each output at the end.
  cost.vector_ops += vectors * vector_ops + 5 * outputs;
  cost.packets += 5 * passes * vectors / 8 + outputs;
  cost.exp_ops += vectors * exp_ops;
}

void cost_sum(const atalla_launch_desc& desc, Cost& cost) {
  cost_reduce(desc, 0, 0, 1, cost);
  const atalla_operand& in = desc.operands[desc.n_operands - 1];
  const auto outputs = static_cast<uint64_t>(element_count(desc.operands[0]));
  const uint64_t vectors = cost.vectors(element_count(in));
  cost.array_rows += vectors;
  cost.weight_rows += cost.chip.vector_lanes;
  cost.vector_ops = outputs;
  cost.packets += 2 * outputs;
  const int last = in.ndim - 1;
  if (last < 0 || in.sizes[last] != desc.operands[0].sizes[last] || in.sizes[last] <= 0) return;
  constexpr uint64_t kTogether = 8;  // columns of tiles that are summed side by side
  const uint64_t row = uint64_t{cost.chip.array_latency_cycles} + 1;
  const uint64_t columns = cost.vectors(in.sizes[last]), groups = cost.divide_up(columns, kTogether);
  cost.packets =
      row * groups * (static_cast<uint64_t>(element_count(in)) / static_cast<uint64_t>(in.sizes[last])) - vectors;
}

}  // namespace atalla::sim::ATALLA_ISA
