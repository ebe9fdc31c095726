// SPDX-License-Identifier: BSD-3-Clause
//
// linalg.geqrf, linalg.householder_product, linalg.ormqr.
//
// Instruction sets: up to avx2
#include "sim/kernels/linalg/matrix.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// out = R and reflectors of in [m, n]; tau [min(m, n)].
atalla_status run_geqrf(const Launch& l) {
  const int64_t m = size_of(l, 0, 2), n = size_of(l, 0, 1), k = m < n ? m : n;
  return for_each_matrix(l, 2, 2 * product(m, n, k), [&]<class S>(S, const Batch& batch, int64_t b) {
    WorkMatrix<S> a(m, n);
    ScratchArray<S> tau(k);
    if (!a || !tau) return false;
    load<S>(batch.plane(2, b), a);
    Int info = 0;
    if (!call_with_work<S>(Routine::kGeqrf, &info, m, n, a.p, a.ld, tau.get())) return false;
    store<S>(a, batch.plane(0, b));
    store_vector<S>(tau.get(), batch.plane(1, b));
    return true;
  });
}

// out [m, n] = the first n columns of H1 ... Hk, whose reflectors are the columns of in [m, n]; tau [k].
atalla_status run_householder_product(const Launch& l) {
  const int64_t m = size_of(l, 0, 2), n = size_of(l, 0, 1), given = size_of(l, 1, 1), k = size_of(l, 2, 1);
  if (n > m) ATALLA_CHECK(check_size(l, 0, 1, m));
  if (k > given || k > n) ATALLA_CHECK(check_size(l, 2, 1, given < n ? given : n));
  return for_each_matrix(l, 2, 2 * product(m, n, k + 1), [&]<class S>(S, const Batch& batch, int64_t b) {
    WorkMatrix<S> q(m, n);
    ScratchArray<S> tau(k);
    Int info = 0;
    if (!q || !tau) return false;
    clear<S>(q);
    Plane reflectors = batch.plane(1, b);
    reflectors.cols = k;
    load<S>(reflectors, q);
    load_vector<S>(batch.plane(2, b), tau.get());
    if (!call_with_work<S>(Routine::kOrgqr, &info, m, n, k, q.p, q.ld, tau.get())) return false;
    store<S>(q, batch.plane(0, b));
    return true;
  });
}

// out = op(Q) c, or c op(Q): Q = H1 ... Hk of in [p, k].
atalla_status run_ormqr(const Launch& l) {
  const LinalgOrmqrParameters parameters = LinalgOrmqrParameters::read(l.desc);
  const bool left = parameters.left;
  const int64_t m = size_of(l, 0, 2), n = size_of(l, 0, 1), p = left ? m : n, q = left ? n : m;
  const int64_t given = size_of(l, 1, 1), k = size_of(l, 2, 1);
  if (k > given || k > p) ATALLA_CHECK(check_size(l, 2, 1, given < p ? given : p));
  return for_each_matrix(l, 2, 4 * product(p, q, k), [&]<class S>(S, const Batch& batch, int64_t b) {
    WorkMatrix<S> a(p, given), c(m, n);
    ScratchArray<S> tau(k);
    Int info = 0;
    if (!a || !c || !tau) return false;
    load<S>(batch.plane(1, b), a);
    load_vector<S>(batch.plane(2, b), tau.get());
    load<S>(batch.plane(3, b), c);
    const char op = !parameters.adjoint ? 'N' : kIsComplex<S> ? 'C' : 'T';
    if (!call_with_work<S>(Routine::kOrmqr, &info, left ? 'L' : 'R', op, m, n, k, a.p, a.ld, tau.get(), c.p, c.ld))
      return false;
    store<S>(c, batch.plane(0, b));
    return true;
  });
}

}  // namespace

extern constexpr KernelFamily linalg_qr_kernels = {
    {"linalg.geqrf", kLinalgDtypes, run_geqrf},
    {"linalg.householder_product", kLinalgDtypes, run_householder_product},
    {"linalg.ormqr", kLinalgDtypes, run_ormqr},
};

}  // namespace atalla::sim::ATALLA_ISA
