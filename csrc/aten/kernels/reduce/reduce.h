// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/native/ReduceOpsUtils.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

using DimMask = at::TensorIterator::DimMask;

// The dimensions that a reduction of `self` covers: no dims, or empty ones, mean all.
inline DimMask reduced_dims(const Tensor& self, OptionalIntArrayRef dims) {
  return at::native::make_dim_mask(dims, self.dim());
}
inline DimMask reduced_dims(const Tensor& self, int64_t dim) {
  return at::native::make_dim_mask(IntArrayRef(&dim, 1), self.dim());
}
inline DimMask all_dims() { return DimMask().set(); }

// Launches a reduction of self over the dimensions of `mask`. The outputs have upstream's shape, with or without the
// reduced dimensions. `correction`: of variances and deviations.
void launch_reduce(const Kernel& kernel, ScalarType compute_dtype, at::ArrayRef<Tensor> outputs, const Tensor& self,
                   DimMask mask, double correction = 0);

}  // namespace atalla::aten
