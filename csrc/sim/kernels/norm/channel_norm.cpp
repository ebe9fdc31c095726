// SPDX-License-Identifier: BSD-3-Clause
//
// Statistics of channels and their use: what batch, instance and group normalization are made of.
// docs/concepts/normalization.md says how the adaptors map their shapes to these kernels.
#include "sim/kernels/norm/channel_norm.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

atalla_status run_statistics(const Launch& l) {
  const atalla_operand& in = l.operand(Statistics::kInput);
  if (in.sizes[1] == 0) return ATALLA_OK;
  const bool ok =
      l.desc.compute_dtype == ATALLA_F64 ? ChannelStatistics<double>(l).run() : ChannelStatistics<float>(l).run();
  return ok ? ATALLA_OK : fail(l, ATALLA_ERR_SYSTEM, "no memory for partial sums");
}

atalla_status run_apply(const Launch& l) {
  const atalla_operand& in = l.operand(Apply::kInput);
  if (element_count(in) == 0) return ATALLA_OK;
  if (l.desc.compute_dtype == ATALLA_F64) ChannelApply<double>(l).run();
  else ChannelApply<float>(l).run();
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily channel_norm_kernels = {
    {"channel_norm.statistics", kFloatDtypes, run_statistics},
    {"channel_norm.apply", kFloatDtypes, run_apply},
};

}  // namespace atalla::sim::ATALLA_ISA
