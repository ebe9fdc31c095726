// SPDX-License-Identifier: BSD-3-Clause
//
// linalg.ldl_factor, linalg.ldl_solve, linalg.matrix_exp.
//
// Instruction sets: up to avx2
#include "sim/kernels/linalg/matrix_exp.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// The lower triangle of out = L and D of in [n, n]; pivots [n], info. The upper triangle is not written.
atalla_status run_ldl_factor(const Launch& l) {
  const int64_t n = size_of(l, 0, 2);
  const bool hermitian = LinalgLdlFactorParameters::read(l.desc).hermitian;
  return for_each_matrix(l, 2, product(n, n, n) / 3, [&]<class S>(S, const Batch& batch, int64_t b) {
    WorkMatrix<S> a(n, n);
    ScratchArray<Int> pivots(n);
    Int info = 0;
    if (!a || !pivots) return false;
    load<S>(batch.plane(3, b), a);
    if (!call_with_work<S>(hermitian ? Routine::kHetrf : Routine::kSytrf, &info, 'L', n, a.p, a.ld, pivots.get()))
      return false;
    store<S>(a, batch.plane(0, b), Part::kLower);
    for (int64_t i = 0; i < n; ++i) store_int(batch.plane(1, b), i, pivots[i]);
    store_int(batch.plane(2, b), 0, info);
    return true;
  });
}

// x [n, k] = A^-1 b, of ld [n, n] and pivots [n].
atalla_status run_ldl_solve(const Launch& l) {
  const int64_t n = size_of(l, 0, 2);
  const bool hermitian = LinalgLdlFactorParameters::read(l.desc).hermitian;
  const Batch all{l, l.operand(kResult).ndim - 2};
  for (int64_t b = 0, count = all.count(); b < count; ++b) {
    const Plane pivots = all.plane(2, b);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t p = load_int(pivots, i);
      const bool paired = p > 0 || (i + 1 < n && load_int(pivots, i + 1) == p);
      if (p != 0 && p >= -n && p <= n && paired) {
        if (p < 0) ++i;
        continue;
      }
      return fail(l, ATALLA_ERR_FAULT_INDEX, "pivot {} is out of range, expected 1 to {} or a negative pair", p, n);
    }
  }
  return solve_by_factors(l, hermitian ? Routine::kHetrs : Routine::kSytrs, 'L');
}

atalla_status run_matrix_exp(const Launch& l) {
  const int64_t n = size_of(l, 0, 2);
  ATALLA_CHECK(find_lapack());
  return for_each_wide_matrix(l, 20 * product(n, n, n), [&]<class S>(S, const Batch& batch, int64_t b) {
    WorkMatrix<S> a(n, n), out(n, n);
    if (!a || !out) return false;
    load<S>(batch.plane(1, b), a);
    if (!exponentiate<S>(a, out)) return false;
    store<S>(out, batch.plane(0, b));
    return true;
  });
}

}  // namespace

extern constexpr KernelFamily linalg_other_kernels = {
    {"linalg.ldl_factor", kLinalgDtypes, run_ldl_factor},
    {"linalg.ldl_solve", kLinalgDtypes, run_ldl_solve},
    {"linalg.matrix_exp", kLinalgDtypes, run_matrix_exp},
};

}  // namespace atalla::sim::ATALLA_ISA
