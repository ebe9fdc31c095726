// SPDX-License-Identifier: BSD-3-Clause
//
// The checks that row kernels share. Each returns ATALLA_OK, or a status with the error text set.
#pragma once

#include "sim/kernels/base/convert_types.h"
#include "sim/kernels/base/dispatch.h"
#include "sim/kernels/base/dispatch_dims.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

inline atalla_status check_operands(const char* kernel, const atalla_launch_desc& d, int outputs, int at_least,
                                    int at_most) {
  if (d.n_outputs == outputs && d.n_operands >= at_least && d.n_operands <= at_most) return ATALLA_OK;
  return set_error(ATALLA_ERR_ARGUMENT, "%s: %d outputs of %d operands, expected %d of %d to %d", kernel, d.n_outputs,
                   d.n_operands, outputs, at_least, at_most);
}

inline atalla_status check_present(const char* kernel, const Launch& l, int i) {
  if (l.data[i] != nullptr || element_count(l.operand(i)) == 0) return ATALLA_OK;
  return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d is absent, expected a tensor", kernel, i);
}

inline atalla_status check_same_sizes(const char* kernel, const Launch& l, int a, int b) {
  const atalla_operand &x = l.operand(a), &y = l.operand(b);
  if (x.ndim != y.ndim) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d has %d dimensions, expected %d as operand %d has", kernel, b,
                     y.ndim, x.ndim, a);
  }
  for (int d = 0; d < x.ndim; ++d) {
    if (x.sizes[d] != y.sizes[d]) {
      return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d has size %lld in dimension %d, expected %lld as operand %d",
                       kernel, b, static_cast<long long>(y.sizes[d]), d, static_cast<long long>(x.sizes[d]), a);
    }
  }
  return ATALLA_OK;
}

// `dim` of a tensor of `ndim` dimensions; a 0-d tensor counts as 1-d.
inline atalla_status check_dim(const char* kernel, int64_t dim, int ndim) {
  if (dim >= 0 && dim < (ndim > 0 ? ndim : 1)) return ATALLA_OK;
  return set_error(ATALLA_ERR_ARGUMENT, "%s: dim %lld of a tensor of %d dimensions", kernel,
                   static_cast<long long>(dim), ndim);
}

// The size of dimension `dim`; 1 of a 0-d tensor, and where check_dim() fails.
inline int64_t size_along(const atalla_operand& o, int64_t dim) { return dim >= 0 && dim < o.ndim ? o.sizes[dim] : 1; }

inline atalla_status check_dtype(const char* kernel, const char* what, atalla_dtype given, uint64_t allowed) {
  if (given < 64 && (dtype_bit(given) & allowed) != 0) return ATALLA_OK;
  return set_error(ATALLA_ERR_UNSUPPORTED, "%s: %s of dtype %s is not supported", kernel, what, dtype_name(given));
}

inline atalla_status check_same_dtype(const char* kernel, const Launch& l, int a, int b) {
  if (l.operand(a).dtype == l.operand(b).dtype) return ATALLA_OK;
  return set_error(ATALLA_ERR_UNSUPPORTED, "%s: operand %d is %s, expected %s as operand %d", kernel, b,
                   dtype_name(l.operand(b).dtype), dtype_name(l.operand(a).dtype), a);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
