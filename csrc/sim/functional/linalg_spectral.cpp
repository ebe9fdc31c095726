// SPDX-License-Identifier: BSD-3-Clause
//
// linalg.eigh, linalg.svd, linalg.lstsq.
//
// Instruction sets: up to avx2
#include "linalg_svd.h"
#include "linalg_symmetric.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

// values [n] ascending, vectors [n, n] (optional), info, of the Hermitian in [n, n].
atalla_status run_eigh(const Launch& l) {
  const char* name = "linalg.eigh";
  const OperandRule rules[] = {{1, 'r'}, {2, 's', true}, {0, 'i'}, {2, 's'}};
  ATALLA_CHECK(check_batch(name, l, 3, rules, 4));
  const int64_t n = size_of(l, 0, 1);
  const bool vectors = l.data[1] != nullptr, upper = l.desc.iparams[0] != 0;
  for (int k : {1, 3}) {
    if (k == 1 && !vectors) continue;
    ATALLA_CHECK(check_size(name, l, k, 2, n));
    ATALLA_CHECK(check_size(name, l, k, 1, n));
  }
  return with_scalar(l, [&](auto tag) {
    using S = decltype(tag);
    const double flops = 9 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    return for_each_matrix(name, l, 1, flops, [&](const Batch& batch, int64_t b) {
      WorkMatrix<S> a(n, n), z(vectors ? n : 0, n);
      HermitianEigen<S> eigen(n);
      int64_t info = 0;
      if (!a.ok() || !z.ok() || !eigen.ok()) return false;
      load<S>(batch.plane(3, b), a, upper ? Op::kAdjoint : Op::kNone);
      if (!eigen.run(a, z, info)) return false;
      const Plane values = batch.plane(0, b);
      for (int64_t k = 0; k < n; ++k) {
        const double value = eigen.d[eigen.order[k]];
        Plane one = values;
        one.data = at(values.data, values.dtype, k * values.row_stride), one.rows = 1;
        store_vector<double>(&value, one);
      }
      const Plane out = batch.plane(1, b);
      for (int64_t k = 0; vectors && k < n; ++k) {
        Plane column = out;
        column.data = at(out.data, out.dtype, k * out.col_stride), column.cols = 1;
        store_vector<S>(z.col(eigen.order[k]), column);
      }
      store_int(batch.plane(2, b), 0, info);
      return true;
    });
  });
}

// u [m, p], s [k], vh [q, n], info, of in [m, n]; k = min(m, n), p and q between k and m, n; u and vh optional.
atalla_status run_svd(const Launch& l) {
  const char* name = "linalg.svd";
  const OperandRule rules[] = {{1, 'r'}, {2, 's', true}, {2, 's', true}, {0, 'i'}, {2, 's'}};
  ATALLA_CHECK(check_batch(name, l, 4, rules, 5));
  const int64_t m = size_of(l, 4, 2), n = size_of(l, 4, 1), k = m < n ? m : n;
  ATALLA_CHECK(check_size(name, l, 0, 1, k));
  const bool vectors = l.data[1] != nullptr && l.data[2] != nullptr;
  int64_t p = 0, q = 0;
  if (vectors) {
    ATALLA_CHECK(check_size(name, l, 1, 2, m));
    ATALLA_CHECK(check_size(name, l, 2, 1, n));
    p = size_of(l, 1, 1), q = size_of(l, 2, 2);
    if (p < k || p > m) return check_size(name, l, 1, 1, k);
    if (q < k || q > n) return check_size(name, l, 2, 2, k);
  }
  const bool tall = m >= n;
  return with_scalar(l, [&](auto tag) {
    using S = decltype(tag);
    const double flops = 60 * static_cast<double>(k) * static_cast<double>(k) * static_cast<double>(k);
    return for_each_matrix(name, l, 1, flops, [&](const Batch& batch, int64_t b) {
      const int64_t rows = tall ? m : n, full = tall ? p : q;
      WorkMatrix<S> a(rows, k), u(vectors ? rows : 0, vectors ? full : k), v(vectors ? k : 0, k);
      WorkArray<double> s(k);
      int64_t info = 0;
      if (!a.ok() || !u.ok() || !v.ok() || !s.ok()) return false;
      load<S>(batch.plane(4, b), a, tall ? Op::kNone : Op::kAdjoint);
      if (!singular_values<S>(a, s.get(), u, v, info)) return false;
      store_vector<double>(s.get(), batch.plane(0, b));
      store_int(batch.plane(3, b), 0, info);
      if (!vectors) return true;
      store<S>(tall ? static_cast<Mat<S>&>(u) : v, batch.plane(1, b));
      store<S>(tall ? static_cast<Mat<S>&>(v) : u, batch.plane(2, b), Op::kAdjoint);
      return true;
    });
  });
}

// One least squares problem: a [m, n], m >= n, of full rank or not, or its adjoint. b has max(m, n) rows.
template <class S>
struct LeastSquares {
  Mat<S> a;      // of the taller form
  Mat<S> b;      // right sides, then the solutions
  bool adjoint;  // the problem is a' x = b: as many unknowns as a has rows
  bool by_values;
  double rcond;
  double* s;
  int64_t rank = 0, info = 0;

  bool run() {
    const int64_t m = a.rows, n = a.cols;
    WorkArray<S> tau(n);
    WorkMatrix<S> r(n, n), u(by_values ? n : 0, n), v(by_values ? n : 0, n), y(n, b.cols);
    if (!tau.ok() || !r.ok() || !u.ok() || !v.ok() || !y.ok()) return false;
    if (n == 0 && !by_values) clear(b);  // as LAPACK does
    if (!factor_qr<S>(a, tau.get())) return false;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < n; ++i) {
        if (adjoint) r(i, j) = i < j ? from_real<S>(0) : conj(a(j, i));
        else r(i, j) = i > j ? from_real<S>(0) : a(i, j);
      }
    }
    if (!adjoint && !apply_q<S>(a, tau.get(), n, b.block(0, 0, m, b.cols), true)) return false;
    const Mat<S> top = b.block(0, 0, n, b.cols);  // now r x = top
    rank = n;
    if (by_values) {
      WorkMatrix<S> copy(n, n);
      if (!copy.ok()) return false;
      assign<S>(copy, r);
      if (!singular_values<S>(copy, s, u, v, info)) return false;
      rank = 0;
      while (rank < n && s[rank] > rcond * s[0]) ++rank;
      WorkMatrix<S> adjoint_u(n, n);
      if (!adjoint_u.ok()) return false;
      assign_adjoint<S>(adjoint_u, u);
      clear<S>(y);
      add_product<S>(y, adjoint_u, top, 1.0);
      for (int64_t j = 0; j < b.cols; ++j) {
        for (int64_t i = 0; i < n; ++i) y(i, j) = i < rank ? y(i, j) / s[i] : from_real<S>(0);
      }
      clear(top);
      add_product<S>(top, v, y, 1.0);
    } else {
      for (int64_t i = 0; i < n && info == 0; ++i) {
        if (is_zero(r(i, i))) info = i + 1;
      }
      solve_triangle<S>(r, top, !adjoint, false);
    }
    if (!adjoint) return true;
    clear(b.block(n, 0, m - n, b.cols));
    return apply_q<S>(a, tau.get(), n, b.block(0, 0, m, b.cols), false);
  }
};

// x [max(m, n), k], rank (I64, optional), s [min(m, n)] (optional), info, of a [m, n] and b [max(m, n), k].
atalla_status run_lstsq(const Launch& l) {
  const char* name = "linalg.lstsq";
  const OperandRule rules[] = {{2, 's'}, {0, 'l', true}, {1, 'r', true}, {0, 'i'}, {2, 's'}, {2, 's'}};
  ATALLA_CHECK(check_batch(name, l, 4, rules, 6));
  const int64_t m = size_of(l, 4, 2), n = size_of(l, 4, 1), small = m < n ? m : n, large = m < n ? n : m;
  const int64_t k = size_of(l, 0, 1);
  for (int operand : {0, 5}) {
    ATALLA_CHECK(check_size(name, l, operand, 2, large));
    ATALLA_CHECK(check_size(name, l, operand, 1, k));
  }
  if (l.data[2] != nullptr) ATALLA_CHECK(check_size(name, l, 2, 1, small));
  return with_scalar(l, [&](auto tag) {
    using S = decltype(tag);
    const double flops = 60 * static_cast<double>(large) * static_cast<double>(small) * static_cast<double>(small);
    return for_each_matrix(name, l, 2, flops, [&](const Batch& batch, int64_t i) {
      WorkMatrix<S> a(large, small), b(large, k);
      WorkArray<double> s(small);
      if (!a.ok() || !b.ok() || !s.ok()) return false;
      load<S>(batch.plane(4, i), a, m < n ? Op::kAdjoint : Op::kNone);
      load<S>(batch.plane(5, i), b);
      LeastSquares<S> problem{a, b, m < n, l.desc.iparams[0] != 0, l.desc.fparams[0], s.get()};
      if (!problem.run()) return false;
      store<S>(b, batch.plane(0, i));
      store_int(batch.plane(1, i), 0, problem.rank);
      store_int(batch.plane(3, i), 0, problem.info);
      if (l.data[2] != nullptr) store_vector<double>(s.get(), batch.plane(2, i));
      return true;
    });
  });
}

void cost_eigh(const atalla_launch_desc& d, Cost& cost) {
  const double n = cost_size(d, 0, 1);
  cost_matrices(d, 1, (d.operands[1].addr != 0 ? 9.0 : 1.4) * n * n * n, cost);
}
void cost_svd(const atalla_launch_desc& d, Cost& cost) {
  const double m = cost_size(d, 4, 2), n = cost_size(d, 4, 1), k = m < n ? m : n;
  cost_matrices(d, 1, 4 * m * n * k + (d.operands[1].addr != 0 ? 60 : 35) * k * k * k, cost);
}
void cost_lstsq(const atalla_launch_desc& d, Cost& cost) {
  const double m = cost_size(d, 4, 2), n = cost_size(d, 4, 1), k = m < n ? m : n;
  cost_matrices(d, 2, 4 * m * n * (k + cost_size(d, 0, 1)) + (d.iparams[0] != 0 ? 60 * k * k * k : 0), cost);
}

constexpr Kernel kKernels[] = {
    {"linalg.eigh", 1, kLinalgDtypes, run_eigh, cost_eigh},
    {"linalg.svd", 1, kLinalgDtypes, run_svd, cost_svd},
    {"linalg.lstsq", 1, kLinalgDtypes, run_lstsq, cost_lstsq},
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg

namespace atalla::sim::ATALLA_ISA {

KernelTable linalg_spectral_kernels() { return linalg::kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
