// SPDX-License-Identifier: BSD-3-Clause
//
// sum, prod, mean, any, all.
#include "sim/kernels/reduce/reduce_passes.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

// Truth values are bytes: some is non-zero if the largest is, all are if the smallest is.
atalla_status run_reduce_any(const Launch& launch) { return run_reduction<Plain<MaxOp<uint8_t>>>(launch, ATALLA_BOOL); }

atalla_status run_reduce_all(const Launch& launch) { return run_reduction<Plain<MinOp<uint8_t>>>(launch, ATALLA_BOOL); }

template <class T>
using Sum = Plain<SumOp<T>>;
template <class T>
using Prod = Plain<ProdOp<T>>;

// Of truth values, the sum is whether any is true, and the product whether all are.
atalla_status run_reduce_sum(const Launch& launch) {
  return launch.desc.compute_dtype == ATALLA_BOOL ? run_reduce_any(launch) : reduce_in_sum_type<Sum>(launch);
}
atalla_status run_reduce_prod(const Launch& launch) {
  return launch.desc.compute_dtype == ATALLA_BOOL ? run_reduce_all(launch) : reduce_in_sum_type<Prod>(launch);
}

}  // namespace

extern constexpr KernelFamily reduce_sum_kernels = {
    {"reduce.sum", kAllDtypes, run_reduce_sum},
    {"reduce.prod", kAllDtypes, run_reduce_prod},
    {"reduce.mean", kFloatDtypes | kComplexDtypes, reduce_in_sum_type<Mean, false>},
    {"reduce.any", kAllDtypes, run_reduce_any},
    {"reduce.all", kAllDtypes, run_reduce_all},
};

}  // namespace atalla::sim::ATALLA_ISA
