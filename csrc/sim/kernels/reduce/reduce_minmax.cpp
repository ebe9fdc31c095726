// SPDX-License-Identifier: BSD-3-Clause
//
// amax, amin.
#include "sim/kernels/reduce/reduce_passes.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

atalla_status run_reduce_amax(const Launch& launch) {
  return dispatch_ordered(launch.desc.compute_dtype,
                          [&]<class T>(atalla_dtype dtype) { return run_reduction<Plain<MaxOp<T>>>(launch, dtype); });
}

atalla_status run_reduce_amin(const Launch& launch) {
  return dispatch_ordered(launch.desc.compute_dtype,
                          [&]<class T>(atalla_dtype dtype) { return run_reduction<Plain<MinOp<T>>>(launch, dtype); });
}

constexpr Kernel kKernels[] = {
    {"reduce.amax", kRealDtypes, run_reduce_amax},
    {"reduce.amin", kRealDtypes, run_reduce_amin},
};

}  // namespace

[[gnu::cold]] KernelTable reduce_minmax_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
