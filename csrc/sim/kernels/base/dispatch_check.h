// SPDX-License-Identifier: BSD-3-Clause
//
// Checks of sizes that kernels share. Each returns ATALLA_OK, or a status with the error text set. The number of
// operands, their presence and their dtypes were checked before (sim/device/kernel_traits.h).
#pragma once

#include "sim/kernels/base/convert_types.h"
#include "sim/kernels/base/dispatch.h"
#include "sim/kernels/base/dispatch_dims.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

inline atalla_status check_same_sizes(const Launch& l, int a, int b) {
  const atalla_operand &x = l.operand(a), &y = l.operand(b);
  if (x.ndim != y.ndim) {
    return fail(l, ATALLA_ERR_ARGUMENT, "operand {} has {} dimensions, expected {} as operand {} has", b, y.ndim,
                x.ndim, a);
  }
  for (int d = 0; d < x.ndim; ++d) {
    if (x.sizes[d] != y.sizes[d]) {
      return fail(l, ATALLA_ERR_ARGUMENT, "operand {} has size {} in dimension {}, expected {} as operand {}", b,
                  y.sizes[d], d, x.sizes[d], a);
    }
  }
  return ATALLA_OK;
}

// `dim` of a tensor of `ndim` dimensions; a 0-d tensor counts as 1-d.
inline atalla_status check_dim(const Launch& l, int64_t dim, int ndim) {
  if (dim >= 0 && dim < (ndim > 0 ? ndim : 1)) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "dim {} of a tensor of {} dimensions", dim, ndim);
}

// The size of dimension `dim`; 1 of a 0-d tensor, and where check_dim() fails.
inline int64_t size_along(const atalla_operand& o, int64_t dim) { return dim >= 0 && dim < o.ndim ? o.sizes[dim] : 1; }

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
