// SPDX-License-Identifier: BSD-3-Clause
//
// amax, amin.
#include "sim/kernels/reduce/reduce_passes.h"

namespace atalla::sim::ATALLA_ISA {

atalla_status run_reduce_amax(const Launch& launch) {
  ATALLA_CHECK(check_reduce("reduce.amax", launch, 1, kFloatDtypes | kIntegerDtypes));
  return dispatch_ordered(launch.desc.compute_dtype,
                          [&]<class T>(atalla_dtype dtype) { return run_reduction<Plain<MaxOp<T>>>(launch, dtype); });
}

atalla_status run_reduce_amin(const Launch& launch) {
  ATALLA_CHECK(check_reduce("reduce.amin", launch, 1, kFloatDtypes | kIntegerDtypes));
  return dispatch_ordered(launch.desc.compute_dtype,
                          [&]<class T>(atalla_dtype dtype) { return run_reduction<Plain<MinOp<T>>>(launch, dtype); });
}

}  // namespace atalla::sim::ATALLA_ISA
