// SPDX-License-Identifier: BSD-3-Clause
//
// linalg.eig: eigenvalues and right eigenvectors of general matrices.
//
// Instruction sets: up to avx2
#include "linalg_schur.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

// Turns the 2 x 2 blocks of a real Schur form into complex triangular ones, the eigenvalue with the positive imaginary
// part first. t and z hold complex copies.
void split_blocks(const Mat<Z>& t, const Mat<Z>& z) {
  const int64_t n = t.rows;
  for (int64_t i = 0; i + 1 < n; ++i) {
    const double b = t(i, i + 1).re, c = t(i + 1, i).re;
    if (c == 0) continue;
    const double omega = std::sqrt(std::fabs(b)) * std::sqrt(std::fabs(c)), size = hypot(b, omega);
    const double p = b / size, q = omega / size;  // the eigenvector (p, i q) of a + i omega
    for (int64_t j = i; j < n; ++j) {             // [p, -i q; i q, p] from the left
      const Z x = t(i, j), y = t(i + 1, j);
      t(i, j) = {p * x.re + q * y.im, p * x.im - q * y.re};
      t(i + 1, j) = {q * x.im + p * y.re, p * y.im - q * x.re};
    }
    const auto columns = [&](const Mat<Z>& a, int64_t rows) {
      for (int64_t j = 0; j < rows; ++j) {
        const Z x = a(j, i), y = a(j, i + 1);
        a(j, i) = {p * x.re - q * y.im, p * x.im + q * y.re};
        a(j, i + 1) = {p * y.re - q * x.im, p * y.im + q * x.re};
      }
    };
    columns(t, i + 2);
    columns(z, z.rows);
    const double middle = (t(i, i).re + t(i + 1, i + 1).re) / 2;
    t(i, i) = {middle, omega}, t(i + 1, i + 1) = {middle, -omega}, t(i + 1, i) = {0, 0};
    ++i;
  }
}

// Column k of x := the eigenvector of the triangular t for its k-th eigenvalue.
void triangular_eigenvectors(const Mat<Z>& t, const Mat<Z>& x) {
  const int64_t n = t.rows;
  double largest = 0;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i <= j; ++i) largest = std::fmax(largest, modulus1(t(i, j)));
  }
  clear(x);
  parallel_for(n, n > 128 ? 16 : n, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      Z* v = x.col(k);
      for (int64_t i = 0; i < k; ++i) v[i] = -t(i, k);
      v[k] = {1, 0};
      const double least =
          std::fmax(kEpsilon * std::fmax(modulus1(t(k, k)), kEpsilon * largest), kSafeMinimum / kEpsilon);
      for (int64_t i = k; i-- > 0;) {
        Z d = t(i, i) - t(k, k);
        if (modulus1(d) < least) d = {least, 0};
        v[i] = v[i] / d;
        if (modulus1(v[i]) > 0x1p300) {
          const double f = 1 / modulus1(v[i]);
          for (int64_t r = 0; r <= k; ++r) v[r] *= f;
        }
        const Z y = v[i];
        const Z* column = t.col(i);
        for (int64_t r = 0; r < i; ++r) v[r] -= column[r] * y;
      }
    }
  });
}

// To unit length, the largest component real (as LAPACK does).
void normalize(Z* v, int64_t n, bool is_real) {
  const double size = norm(v, n);
  if (!(size > 0)) return;
  double most = 0;
  int64_t best = 0;
  for (int64_t i = 0; i < n; ++i) {
    v[i] = v[i] / size;
    const double m = squared(v[i]);
    if (m > most) most = m, best = i;
  }
  const Z f = conj(v[best]) / std::sqrt(most);
  for (int64_t i = 0; i < n; ++i) {
    v[i] *= f;
    if (is_real) v[i].im = 0;
  }
  v[best] = {std::sqrt(most), 0};
}

template <class S>
bool solve_general(const Plane& in, const Plane& values, const Plane& vectors, const Plane& info) {
  const int64_t n = in.rows;
  const bool wanted = vectors.data != nullptr;
  WorkMatrix<S> a(n, n), q(wanted ? n : 0, n);
  WorkMatrix<Z> t(n, n), z(wanted ? n : 0, n), x(wanted ? n : 0, n);
  WorkArray<S> tau(n), w(n);
  WorkArray<double> scale(n);
  if (!a.ok() || !q.ok() || !t.ok() || !z.ok() || !x.ok() || !tau.ok() || !w.ok() || !scale.ok()) return false;
  load<S>(in, a);
  Balance balance{0, 0, scale.get()};
  balance_matrix<S>(a, balance);
  if (!reduce_to_hessenberg<S>(a, balance, q, tau.get(), w.get())) return false;
  const bool narrow = in.dtype == ATALLA_F32 || in.dtype == ATALLA_C64;
  const int64_t failed =
      schur_iteration(a, q, balance.low, balance.high, narrow ? Precision{0x1p-23, 0x1p-126} : Precision{});
  store_int(info, 0, failed);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) t(i, j) = widen(a(i, j));
    for (int64_t i = 0; i < z.rows; ++i) z(i, j) = widen(q(i, j));
  }
  if constexpr (!kIsComplex<S>) split_blocks(t, z);
  for (int64_t k = 0; k < n; ++k) w[k] = from_real<S>(0);
  WorkArray<Z> diagonal(n);
  if (!diagonal.ok()) return false;
  for (int64_t k = 0; k < n; ++k) diagonal[k] = t(k, k);
  store_vector<Z>(diagonal.get(), values);
  if (!wanted) return true;
  triangular_eigenvectors(t, x);
  clear<Z>(t);
  add_product<Z>(t, z, x, 1.0);
  unbalance<Z>(t, balance);
  for (int64_t k = 0; k < n; ++k) {
    normalize(t.col(k), n, !kIsComplex<S> && diagonal[k].im == 0);
    if (!kIsComplex<S> && k > 0 && diagonal[k].im < 0) {  // exactly the conjugate of the pair's first
      for (int64_t i = 0; i < n; ++i) t(i, k) = conj(t(i, k - 1));
    }
  }
  store<Z>(t, vectors);
  return true;
}

// values [n] and vectors [n, n] (complex, vectors optional), info, of in [n, n].
atalla_status run_eig(const Launch& l) {
  const char* name = "linalg.eig";
  const OperandRule rules[] = {{1, 'c'}, {2, 'c', true}, {0, 'i'}, {2, 's'}};
  ATALLA_CHECK(check_batch(name, l, 3, rules, 4));
  const int64_t n = size_of(l, 0, 1);
  for (int k : {1, 3}) {
    if (k == 1 && l.data[1] == nullptr) continue;
    ATALLA_CHECK(check_size(name, l, k, 2, n));
    ATALLA_CHECK(check_size(name, l, k, 1, n));
  }
  return with_scalar(l, [&](auto tag) {
    using S = decltype(tag);
    const double flops = 25 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    return for_each_matrix(name, l, 1, flops, [&](const Batch& batch, int64_t b) {
      return solve_general<S>(batch.plane(3, b), batch.plane(0, b), batch.plane(1, b), batch.plane(2, b));
    });
  });
}

void cost_eig(const atalla_launch_desc& d, Cost& cost) {
  const double n = cost_size(d, 0, 1);
  cost_matrices(d, 1, (d.operands[1].addr != 0 ? 25 : 10) * n * n * n, cost);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg

namespace atalla::sim::ATALLA_ISA {

KernelTable linalg_general_kernels() {
  static constexpr Kernel kernels[] = {{"linalg.eig", 1, linalg::kLinalgDtypes, linalg::run_eig, linalg::cost_eig}};
  return kernels;
}

}  // namespace atalla::sim::ATALLA_ISA
