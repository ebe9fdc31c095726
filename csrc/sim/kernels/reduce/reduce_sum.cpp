// SPDX-License-Identifier: BSD-3-Clause
//
// sum, prod, mean, any, all.
#include "sim/kernels/reduce/reduce_passes.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

// Truth values are bytes: some is non-zero if the largest is, all are if the smallest is.
atalla_status run_reduce_any(const Launch& launch) { return run_reduction<Plain<MaxOp<uint8_t>>>(launch, ATALLA_BOOL); }

atalla_status run_reduce_all(const Launch& launch) { return run_reduction<Plain<MinOp<uint8_t>>>(launch, ATALLA_BOOL); }

// Of truth values, the sum is whether any is true, and the product whether all are.
atalla_status run_reduce_sum(const Launch& launch) {
  if (launch.desc.compute_dtype == ATALLA_BOOL) return run_reduce_any(launch);
  return dispatch_accumulation(launch.desc.compute_dtype, [&]<class T>(atalla_dtype dtype) {
    return run_reduction<Plain<SumOp<T>>>(launch, dtype);
  });
}

atalla_status run_reduce_prod(const Launch& launch) {
  if (launch.desc.compute_dtype == ATALLA_BOOL) return run_reduce_all(launch);
  return dispatch_accumulation(launch.desc.compute_dtype, [&]<class T>(atalla_dtype dtype) {
    return run_reduction<Plain<ProdOp<T>>>(launch, dtype);
  });
}

atalla_status run_reduce_mean(const Launch& launch) {
  return dispatch_accumulation(launch.desc.compute_dtype, [&]<class T>(atalla_dtype dtype) -> atalla_status {
    if constexpr (std::is_integral_v<T>) {
      return ATALLA_ERR_UNSUPPORTED;  // the table of kernels has refused integers
    } else {
      return run_reduction<Mean<T>>(launch, dtype);
    }
  });
}

constexpr Kernel kKernels[] = {
    {"reduce.sum", kAllDtypes, run_reduce_sum},
    {"reduce.prod", kAllDtypes, run_reduce_prod},
    {"reduce.mean", kFloatDtypes | kComplexDtypes, run_reduce_mean},
    {"reduce.any", kAllDtypes, run_reduce_any},
    {"reduce.all", kAllDtypes, run_reduce_all},
};

}  // namespace

[[gnu::cold]] KernelTable reduce_sum_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
