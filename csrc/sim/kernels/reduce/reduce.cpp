// SPDX-License-Identifier: BSD-3-Clause
//
// The table of reductions and what each costs for 32 elements on the chip (docs/concepts/pointwise.md lists the
// expansions): one accumulating vector instruction, two more for a compare and a select where the chip has no such
// instruction.
#include "sim/kernels/reduce/reduce.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <int kVectorOps, int kExpOps, int kPasses>
void cost_of(const atalla_launch_desc& desc, Cost& cost) {
  cost_reduce(desc, kVectorOps, kExpOps, kPasses, cost);
}

constexpr uint64_t kReal = kFloatDtypes | kIntegerDtypes;

constexpr Kernel kKernels[] = {
    {"reduce.sum", kAllDtypes, run_reduce_sum, cost_of<1, 0, 1>},
    {"reduce.nansum", kFloatDtypes, run_reduce_nansum, cost_of<4, 0, 1>},
    {"reduce.count_nonzero", kAllDtypes, run_reduce_count_nonzero, cost_of<2, 0, 1>},
    {"reduce.xor", kReal, run_reduce_xor, cost_of<1, 0, 1>},
    {"reduce.prod", kAllDtypes, run_reduce_prod, cost_of<1, 0, 1>},
    {"reduce.mean", kFloatDtypes | kComplexDtypes, run_reduce_mean, cost_of<1, 0, 1>},
    {"reduce.norm1", kFloatDtypes, run_reduce_norm1, cost_of<2, 0, 1>},
    {"reduce.norm2", kFloatDtypes | kComplexDtypes, run_reduce_norm2, cost_of<2, 0, 1>},
    {"reduce.amax", kReal, run_reduce_amax, cost_of<3, 0, 1>},
    {"reduce.amin", kReal, run_reduce_amin, cost_of<3, 0, 1>},
    {"reduce.any", kAllDtypes, run_reduce_any, cost_of<2, 0, 1>},
    {"reduce.all", kAllDtypes, run_reduce_all, cost_of<2, 0, 1>},
    {"reduce.logsumexp", kFloatDtypes, run_reduce_logsumexp, cost_of<5, 1, 2>},
    {"reduce.var", kFloatDtypes | kComplexDtypes, run_reduce_var, cost_of<4, 0, 2>},
    {"reduce.std", kFloatDtypes | kComplexDtypes, run_reduce_std, cost_of<4, 0, 2>},
    {"reduce.var_mean", kFloatDtypes | kComplexDtypes, run_reduce_var_mean, cost_of<4, 0, 2>},
    {"reduce.argmax", kReal, run_reduce_argmax, cost_of<6, 0, 1>},
    {"reduce.argmin", kReal, run_reduce_argmin, cost_of<6, 0, 1>},
    {"reduce.max_dim", kReal, run_reduce_max_dim, cost_of<6, 0, 1>},
    {"reduce.min_dim", kReal, run_reduce_min_dim, cost_of<6, 0, 1>},
};

}  // namespace

KernelTable reduce_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
