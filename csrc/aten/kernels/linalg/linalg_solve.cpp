// SPDX-License-Identifier: BSD-3-Clause
//
// Triangular factors and what is solved with them: LU, Cholesky.

#include "aten/kernels/linalg/linalg.h"

namespace atalla::aten {

namespace {

const Kernel kLuFactor("linalg.lu_factor"), kLuSolve("linalg.lu_solve"), kPermutation("linalg.permutation"),
    kCholesky("linalg.cholesky"), kTriangularSolve("linalg.triangular_solve");

void cholesky_in_place(const Tensor& a, const Tensor& info, bool upper) {
  launch(kCholesky, a.scalar_type(), {a, info}, {a}, LinalgCholeskyParameters{.upper = upper});
}

void lu_factor_in_place(const Tensor& a, const Tensor& pivots, const Tensor& info, bool pivoting) {
  launch(kLuFactor, a.scalar_type(), {a, pivots, info}, {a}, LinalgLuFactorParameters{.pivot = pivoting});
}

// Upstream leaves the batches of the factors to be broadcast here.
void lu_solve_in_place(const Tensor& lu, const Tensor& pivots, const Tensor& b, at::native::TransposeType op) {
  DimVector matrices(b.sizes().slice(0, b.dim() - 2)), rows = matrices;
  matrices.append({lu.size(-2), lu.size(-1)});
  rows.push_back(pivots.size(-1));
  launch(kLuSolve, b.scalar_type(), {b}, {lu.expand(matrices), pivots.expand(rows), b},
         LinalgLuSolveParameters{.op = matrix_op(op)});
}

// Upstream's callers describe the memory of `a` as column-major, whatever its strides say.
void triangular_solve_in_place(const Tensor& a, const Tensor& b, bool left, bool upper, at::native::TransposeType op,
                               bool unit) {
  launch_triangular_solve(b, {}, a.mT().is_contiguous() ? a : a.mT(), b, left, upper, matrix_op(op), unit);
}

// A = L L' (or U' U): A^-1 by two triangular solves of the identity. `infos` is on the CPU, as upstream's caller wants.
Tensor& cholesky_inverse_in_place(Tensor& result, Tensor& infos, bool upper) {
  const Tensor factor = result.clone(), info = empty_info(result);
  result.zero_();
  result.diagonal(0, -2, -1).fill_(1);
  launch_triangular_solve(result, info, factor, result, true, upper, upper ? MatrixOp::kAdjoint : MatrixOp::kNone,
                          false);
  launch_triangular_solve(result, {}, factor, result, true, upper, upper ? MatrixOp::kNone : MatrixOp::kAdjoint, false);
  if (info.numel() > 0) infos.copy_(info.reshape(infos.sizes()));
  return result;
}

}  // namespace

void launch_triangular_solve(const Tensor& x, const Tensor& info, const Tensor& t, const Tensor& b, bool left,
                             bool upper, MatrixOp op, bool unit) {
  if (x.numel() == 0 && !info.defined()) return;
  launch(kTriangularSolve, x.scalar_type(), {x, info}, {t, b},
         LinalgTriangularSolveParameters{.upper = upper, .unit = unit, .right = !left, .op = op});
}

Tensor cholesky_solve_helper(const Tensor& self, const Tensor& A, bool upper) {
  Tensor x = at::native::cloneBatchedColumnMajor(self);
  launch_triangular_solve(x, {}, A, x, true, upper, upper ? MatrixOp::kAdjoint : MatrixOp::kNone, false);
  launch_triangular_solve(x, {}, A, x, true, upper, upper ? MatrixOp::kNone : MatrixOp::kAdjoint, false);
  return x;
}

// One of L and U may be LU itself, which is then overwritten last.
void lu_unpack(const Tensor& LU, const Tensor& pivots, bool unpack_data, bool unpack_pivots, const Tensor& P,
               const Tensor& L, const Tensor& U) {
  const int64_t m = LU.size(-2), n = LU.size(-1);
  if (unpack_data) {
    Tensor lower = L, upper = U;
    const bool lower_last = m > n || LU.is_same(L);
    if (lower_last) at::triu_out(upper, m == n ? LU : LU.narrow(-2, 0, n), 0);
    at::tril_out(lower, m > n || m == n ? LU : LU.narrow(-1, 0, m), -1);
    lower.diagonal(0, -2, -1).fill_(1);
    if (!lower_last) at::triu_out(upper, LU, 0);
  }
  at::assert_no_internal_overlap(P);
  if (unpack_pivots && P.numel() > 0) launch(kPermutation, P.scalar_type(), {P}, {pivots});
}

}  // namespace atalla::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(cholesky_stub, &atalla::aten::cholesky_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_inverse_stub, &atalla::aten::cholesky_inverse_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(lu_factor_stub, &atalla::aten::lu_factor_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(lu_solve_stub, &atalla::aten::lu_solve_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(triangular_solve_stub, &atalla::aten::triangular_solve_in_place)

}  // namespace at::native
