// SPDX-License-Identifier: BSD-3-Clause
//
// LU, Cholesky and QR factors, and what is solved with them; linalg.lstsq with the drivers of upstream's CPU kernel
// (its own function allows other devices "gels" alone).
#include <algorithm>
#include <cctype>

#include "aten/kernels/linalg/linalg.h"

namespace atalla::aten {

namespace {

void cholesky_in_place(const Tensor& a, const Tensor& info, bool upper) {
  launch(kLinalgCholesky, a.scalar_type(), {a, info}, {a}, LinalgCholeskyParameters{.upper = upper});
}

void lu_factor_in_place(const Tensor& a, const Tensor& pivots, const Tensor& info, bool pivoting) {
  launch(kLinalgLuFactor, a.scalar_type(), {a, pivots, info}, {a}, LinalgLuFactorParameters{.pivot = pivoting});
}

// Upstream leaves the batches of the factors to be broadcast here.
void lu_solve_in_place(const Tensor& lu, const Tensor& pivots, const Tensor& b, at::native::TransposeType op) {
  DimVector matrices(b.sizes().slice(0, b.dim() - 2)), rows = matrices;
  matrices.append({lu.size(-2), lu.size(-1)});
  rows.push_back(pivots.size(-1));
  launch(kLinalgLuSolve, b.scalar_type(), {b}, {lu.expand(matrices), pivots.expand(rows), b},
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
  launch(kLinalgTriangularSolve, x.scalar_type(), {x, info}, {t, b},
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
  if (unpack_pivots && P.numel() > 0) launch(kLinalgPermutation, P.scalar_type(), {P}, {pivots});
}

namespace {

void geqrf_in_place(const Tensor& a, const Tensor& tau) { launch(kLinalgGeqrf, a.scalar_type(), {a, tau}, {a}); }

Tensor& orgqr_in_place(Tensor& q, const Tensor& tau) {
  launch(kLinalgHouseholderProduct, q.scalar_type(), {q}, {q, tau});
  return q;
}

void ormqr_in_place(const Tensor& reflectors, const Tensor& tau, const Tensor& other, bool left, bool transpose) {
  launch(kLinalgOrmqr, other.scalar_type(), {other}, {reflectors, tau, other},
         LinalgOrmqrParameters{.left = left, .adjoint = transpose});
}

LstsqDriver parse_driver(std::optional<c10::string_view> name) {
  if (!name.has_value()) return LstsqDriver::kGelsy;
  std::string lower(*name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const char* names[] = {"gels", "gelsd", "gelsy", "gelss"};
  for (int i = 0; i < 4; ++i)
    if (lower == names[i]) return static_cast<LstsqDriver>(i);
  TORCH_CHECK(false, "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
}

void check_inputs(const Tensor& self, const Tensor& b) {
  TORCH_CHECK(self.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TORCH_CHECK(b.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
  TORCH_CHECK(self.scalar_type() == b.scalar_type(),
              "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype ",
              self.scalar_type(), " and other's dtype ", b.scalar_type());
  const int64_t less = self.dim() - b.dim();
  TORCH_CHECK(less == 0 || less == 1,
              "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) "
              "<= 1");
  TORCH_CHECK(self.size(-2) == b.size(less == 1 ? -1 : -2),
              "torch.linalg.lstsq: input.size(-2) should match other.size(", less == 1 ? "-1)" : "-2)");
  at::native::checkSameDevice("torch.linalg.lstsq", b, self, "other");
}

// Sums of squares of the rows that the kernel leaves below the solution.
Tensor sum_of_squares(const Tensor& rows) {
  if (!rows.is_complex()) return rows.mul(rows).sum(-2);
  const Tensor parts = at::view_as_real(rows);
  return parts.mul(parts).sum(IntArrayRef{-3, -1});
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> linalg_lstsq(const Tensor& self, const Tensor& b,
                                                        std::optional<double> rcond,
                                                        std::optional<c10::string_view> driver_name) {
  check_inputs(self, b);
  const LstsqDriver driver = parse_driver(driver_name);
  const bool vector = at::native::linalg_solve_is_vector_rhs(self, b);
  const Tensor right = vector ? b.unsqueeze(-1) : b;
  TORCH_CHECK(self.size(-2) == right.size(-2), "torch.linalg.lstsq: input.size(-2) should match other.size(-2)");
  const int64_t m = self.size(-2), n = self.size(-1), k = right.size(-1), large = std::max(m, n);
  const ScalarType dtype = self.scalar_type(), real_dtype = c10::toRealValueType(dtype);
  const double tolerance = rcond.value_or(at::native::_get_epsilon(real_dtype) * static_cast<double>(large));

  DimVector sizes(at::native::broadcast_batch_size(self, right, self.dim() - 2));
  const DimVector batch = sizes;
  sizes.append({m, n});
  const Tensor a = self.expand(sizes);
  sizes[batch.size()] = large, sizes[batch.size() + 1] = k;
  Tensor x =
      empty_strided(sizes, at::native::batched_matrix_contiguous_strides(sizes, true), dtype, self.device().index());
  sizes[batch.size()] = m;
  x.narrow(-2, 0, m).copy_(right.expand(sizes));

  const IntArrayRef own_batch = self.sizes().slice(0, self.dim() - 2);
  const auto empty = [&](IntArrayRef s, ScalarType t) { return empty_like_dtype(self, s, t); };
  Tensor rank = empty(driver == LstsqDriver::kGels ? IntArrayRef{0} : own_batch, at::kLong);
  DimVector values_sizes(own_batch);
  values_sizes.push_back(std::min(m, n));
  const bool wants_values = driver == LstsqDriver::kGelsd || driver == LstsqDriver::kGelss;
  Tensor values = empty(wants_values ? IntArrayRef(values_sizes) : IntArrayRef{0}, real_dtype);
  Tensor info = empty(batch, at::kInt);
  // Matrices that b repeats write the same rank and singular values several times.
  DimVector values_batch = batch;
  values_batch.push_back(std::min(m, n));
  if (info.numel() > 0) {
    launch(kLinalgLstsq, dtype,
           {x, driver == LstsqDriver::kGels ? Tensor() : rank.expand(batch),
            wants_values ? values.expand(values_batch) : Tensor(), info},
           {a, x}, LinalgLstsqParameters{.driver = driver, .tolerance = tolerance});
    at::_linalg_check_errors(info, "torch.linalg.lstsq", batch.empty());
  }

  Tensor residuals = empty({0}, real_dtype);
  if (m > n && driver != LstsqDriver::kGelsy && (driver == LstsqDriver::kGels || rank.eq(n).all().item<bool>()))
    residuals = sum_of_squares(x.narrow(-2, n, m - n));
  Tensor solution = x.narrow(-2, 0, n);
  if (vector) solution = solution.squeeze(-1);
  return {solution, residuals, rank, values};
}

std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> linalg_lstsq_out(const Tensor& self, const Tensor& b,
                                                                std::optional<double> rcond,
                                                                std::optional<c10::string_view> driver,
                                                                Tensor& solution, Tensor& residuals, Tensor& rank,
                                                                Tensor& singular_values) {
  check_inputs(self, b);
  const char* name = "torch.linalg.lstsq";
  const ScalarType real_dtype = c10::toRealValueType(self.scalar_type());
  at::native::checkSameDevice(name, solution, self, "solution");
  at::native::checkSameDevice(name, residuals, self, "residuals");
  at::native::checkSameDevice(name, rank, self, "rank");
  at::native::checkSameDevice(name, singular_values, self, "singular_values");
  at::native::checkLinalgCompatibleDtype(name, solution, self, "solution");
  at::native::checkLinalgCompatibleDtype(name, residuals.scalar_type(), real_dtype, "solution");
  at::native::checkLinalgCompatibleDtype(name, rank.scalar_type(), at::kLong, "rank");
  at::native::checkLinalgCompatibleDtype(name, singular_values.scalar_type(), real_dtype, "singular_values");
  const auto [x, sums, ranks, values] = aten::linalg_lstsq(self, b, rcond, driver);
  copy_result(x, solution);
  copy_result(sums, residuals);
  copy_result(ranks, rank);
  copy_result(values, singular_values);
  return {solution, residuals, rank, singular_values};
}

}  // namespace atalla::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_stub, &atalla::aten::cholesky_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_inverse_stub, &atalla::aten::cholesky_inverse_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(lu_factor_stub, &atalla::aten::lu_factor_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(lu_solve_stub, &atalla::aten::lu_solve_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(triangular_solve_stub, &atalla::aten::triangular_solve_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(geqrf_stub, &atalla::aten::geqrf_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(orgqr_stub, &atalla::aten::orgqr_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(ormqr_stub, &atalla::aten::ormqr_in_place)
}  // namespace at::native
