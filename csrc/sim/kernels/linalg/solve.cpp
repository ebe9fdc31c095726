// SPDX-License-Identifier: BSD-3-Clause
//
// linalg.lu_factor, linalg.lu_solve, linalg.permutation, linalg.cholesky, linalg.triangular_solve.
#include "sim/kernels/linalg/matrix.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// a := L and U without an exchange of rows, which LAPACK does not have. Returns 0, or the number (from 1) of the first
// zero pivot.
template <class S>
int64_t factor_without_pivoting(const Mat<S>& a) {
  int64_t info = 0;
  for (int64_t k = 0; k < a.rows && k < a.cols; ++k) {
    const S pivot = a(k, k);
    if (is_zero(pivot)) {
      if (info == 0) info = k + 1;
    } else {
      for (int64_t i = k + 1; i < a.rows; ++i) a(i, k) = a(i, k) / pivot;
    }
    for (int64_t j = k + 1; j < a.cols; ++j) {
      for (int64_t i = k + 1; i < a.rows; ++i) a(i, j) = a(i, j) - a(i, k) * a(k, j);
    }
  }
  return info;
}

// out = LU of in [m, n], pivots [min(m, n)] from 1, info.
atalla_status run_lu_factor(const Launch& l) {
  const int64_t m = size_of(l, 0, 2), n = size_of(l, 0, 1), steps = m < n ? m : n;
  const double flops = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(steps);
  if (!LinalgLuFactorParameters::read(l.desc).pivot) {
    return for_each_wide_matrix(l, flops, [&]<class S>(S, const Batch& batch, int64_t b) {
      WorkMatrix<S> a(m, n);
      if (!a) return false;
      load<S>(batch.plane(3, b), a);
      store_int(batch.plane(2, b), 0, factor_without_pivoting<S>(a));
      store<S>(a, batch.plane(0, b));
      for (int64_t i = 0; i < steps; ++i) store_int(batch.plane(1, b), i, i + 1);
      return true;
    });
  }
  return for_each_matrix(l, 2, flops, [&]<class S>(S, const Batch& batch, int64_t b) {
    WorkMatrix<S> a(m, n);
    ScratchArray<Int> rows(steps);
    Int info = 0;
    if (!a || !rows) return false;
    load<S>(batch.plane(3, b), a);
    call<S>(Routine::kGetrf, m, n, a.p, a.ld, rows.get(), &info);
    store<S>(a, batch.plane(0, b));
    for (int64_t i = 0; i < steps; ++i) store_int(batch.plane(1, b), i, rows[i]);
    store_int(batch.plane(2, b), 0, info);
    return true;
  });
}

// That `count` pivots of each matrix are rows, from 1, of as many.
atalla_status check_pivots(const Launch& l, int operand, int64_t count, int64_t rows) {
  const Batch all{l, l.operand(kResult).ndim - 2};
  for (int64_t b = 0, n = all.count(); b < n; ++b) {
    const Plane pivots = all.plane(operand, b);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t p = load_int(pivots, i);
      if (p >= 1 && p <= rows && i < rows) continue;
      return fail(l, ATALLA_ERR_FAULT_INDEX, "pivot {} is out of range, expected 1 to {}", p, rows);
    }
  }
  return ATALLA_OK;
}

// x [n, k] = op(P L U)^-1 b.
atalla_status run_lu_solve(const Launch& l) {
  const int64_t n = size_of(l, 0, 2);
  ATALLA_CHECK(check_pivots(l, LinalgLuSolveOperands::kPivots, n, n));
  return solve_by_factors(l, Routine::kGetrs, letter(LinalgLuSolveParameters::read(l.desc).op));
}

// out [m, m] = P of P L U, from pivots [k].
atalla_status run_permutation(const Launch& l) {
  const int64_t m = size_of(l, 0, 2), k = size_of(l, 1, 1);
  ATALLA_CHECK(check_pivots(l, LinalgPermutationOperands::kPivots, k, m));
  return for_each_wide_matrix(l, static_cast<double>(m * m), [&]<class S>(S, const Batch& batch, int64_t b) {
    WorkMatrix<S> p(m, m);
    ScratchArray<int64_t> row(m);
    if (!p || !row) return false;
    const Plane pivots = batch.plane(1, b);
    for (int64_t i = 0; i < m; ++i) row[i] = i;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t other = load_int(pivots, i) - 1, x = row[i];
      row[i] = row[other], row[other] = x;
    }
    clear<S>(p);
    for (int64_t i = 0; i < m; ++i) p(row[i], i) = from_real<S>(1);
    store<S>(p, batch.plane(0, b));
    return true;
  });
}

// A triangle of out = the Cholesky factor of in, which is read in that triangle alone; info.
atalla_status run_cholesky(const Launch& l) {
  const int64_t n = size_of(l, 0, 2);
  const bool upper = LinalgCholeskyParameters::read(l.desc).upper;
  return for_each_matrix(l, 2, product(n, n, n) / 3, [&]<class S>(S, const Batch& batch, int64_t b) {
    WorkMatrix<S> a(n, n);
    Int info = 0;
    if (!a) return false;
    load<S>(batch.plane(2, b), a);
    call<S>(Routine::kPotrf, upper ? 'U' : 'L', n, a.p, a.ld, &info);
    store<S>(a, batch.plane(0, b), upper ? Part::kUpper : Part::kLower);
    store_int(batch.plane(1, b), 0, info);
    return true;
  });
}

// x = op(t)^-1 b, or b op(t)^-1 where p.right; info: the number (from 1) of the first zero of t's diagonal.
atalla_status run_triangular_solve(const Launch& l) {
  const LinalgTriangularSolveParameters p = LinalgTriangularSolveParameters::read(l.desc);
  const bool right = p.right;
  const int64_t n = size_of(l, 2, 1), k = size_of(l, 0, right ? 2 : 1);
  return for_each_matrix(l, 2, product(n, n, k), [&]<class S>(S, const Batch& batch, int64_t b) {
    const int64_t rows = right ? k : n, columns = right ? n : k;
    WorkMatrix<S> t(n, n), x(rows, columns);
    if (!t || !x) return false;
    load<S>(batch.plane(2, b), t);
    load<S>(batch.plane(3, b), x);
    int64_t info = 0;
    for (int64_t i = 0; !p.unit && i < n && info == 0; ++i) {
      if (is_zero(t(i, i))) info = i + 1;
    }
    call<S>(Routine::kTrsm, right ? 'R' : 'L', p.upper ? 'U' : 'L', letter(p.op), p.unit ? 'U' : 'N', rows, columns,
            from_real<S>(1), t.p, t.ld, x.p, x.ld);
    store<S>(x, batch.plane(0, b));
    store_int(batch.plane(1, b), 0, info);
    return true;
  });
}

}  // namespace

extern constexpr KernelFamily linalg_solve_kernels = {
    {"linalg.lu_factor", kLinalgDtypes, run_lu_factor},
    {"linalg.lu_solve", kLinalgDtypes, run_lu_solve},
    {"linalg.permutation", kLinalgDtypes, run_permutation},
    {"linalg.cholesky", kLinalgDtypes, run_cholesky},
    {"linalg.triangular_solve", kLinalgDtypes, run_triangular_solve},
};

}  // namespace atalla::sim::ATALLA_ISA
