// SPDX-License-Identifier: BSD-3-Clause
//
// Statistics of channels and their use: what batch, instance and group normalization are made of.
// docs/concepts/normalization.md says how the adaptors map their shapes to these kernels.
#include "sim/kernels/norm/channel_norm.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

atalla_status run_statistics(const Launch& l) {
  const char* name = "channel_norm.statistics";
  const atalla_operand& in = l.operand(Statistics::kInput);
  if (in.sizes[1] == 0) return ATALLA_OK;
  const bool ok =
      l.desc.compute_dtype == ATALLA_F64 ? ChannelStatistics<double>(l).run() : ChannelStatistics<float>(l).run();
  return ok ? ATALLA_OK : set_error(ATALLA_ERR_SYSTEM, "%s: no memory for partial sums", name);
}

atalla_status run_apply(const Launch& l) {
  const atalla_operand& in = l.operand(Apply::kInput);
  if (element_count(in) == 0) return ATALLA_OK;
  if (l.desc.compute_dtype == ATALLA_F64) ChannelApply<double>(l).run();
  else ChannelApply<float>(l).run();
  return ATALLA_OK;
}

// Sum; subtract, square, sum in a second reading. A channel: two lane reductions, a root, and the running values.
void cost_statistics(const atalla_launch_desc& d, Cost& cost) {
  const atalla_operand& in = d.operands[Statistics::kInput];
  if (in.ndim != 3) return;
  cost_operand_bytes(d, cost);
  cost.bytes_read += operand_bytes(in);
  for (const int i : {Statistics::kRunningMean, Statistics::kRunningVariance}) {
    cost.bytes_read += operand_bytes(d.operands[i]);
  }
  cost.vector_ops +=
      4 * cost.vectors(element_count(in)) + static_cast<uint64_t>(in.sizes[1]) * 4 + 15 * cost.vectors(in.sizes[1]);
}

// Subtract, multiply, add for every element; the factor for every channel.
void cost_apply(const atalla_launch_desc& d, Cost& cost) {
  const atalla_operand& in = d.operands[Apply::kInput];
  if (in.ndim != 4) return;
  cost_operand_bytes(d, cost);
  cost.vector_ops += 3 * cost.vectors(element_count(in)) + 9 * cost.vectors(in.sizes[1] * in.sizes[2]);
}

constexpr Kernel kKernels[] = {
    {"channel_norm.statistics", kFloatDtypes, run_statistics, cost_statistics},
    {"channel_norm.apply", kFloatDtypes, run_apply, cost_apply},
};

}  // namespace

[[gnu::cold]] KernelTable channel_norm_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
