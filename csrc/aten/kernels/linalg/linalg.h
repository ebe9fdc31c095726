// SPDX-License-Identifier: BSD-3-Clause
//
// What the linear algebra adaptors share. Upstream's own functions do the checks, the copies into column-major
// matrices and the composition; the stubs they call are registered here with launches.
#pragma once

#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/LinearAlgebraUtils.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// The kernels' `op` parameter.
inline MatrixOp matrix_op(at::native::TransposeType t) {
  if (t == at::native::TransposeType::NoTranspose) return MatrixOp::kNone;
  return t == at::native::TransposeType::ConjTranspose ? MatrixOp::kAdjoint : MatrixOp::kTranspose;
}

// x := op(t)^-1 b or, unless left, b op(t)^-1. `info` may be undefined.
void launch_triangular_solve(const Tensor& x, const Tensor& info, const Tensor& t, const Tensor& b, bool left,
                             bool upper, MatrixOp op, bool unit);

inline Tensor empty_info(const Tensor& a) { return empty_like_dtype(a, a.sizes().slice(0, a.dim() - 2), at::kInt); }

}  // namespace atalla::aten
