// SPDX-License-Identifier: BSD-3-Clause
//
// Singular values by Jacobi rotations of columns (M. Hestenes, 1958; J. Demmel, K. Veselic, Jacobi's method is more
// accurate than QR, 1992), after a QR factorisation. Columns are paired as in a round-robin tournament, so that the
// pairs of a round are disjoint and run in parallel, with the same result on any number of threads.
#pragma once

#include "linalg_householder.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

// Makes columns p and q of x orthogonal, and rotates those of j with them. False: they were already.
template <class S>
bool rotate_pair(const Mat<S>& x, const Mat<S>& j, int64_t p, int64_t q, double* squares) {
  S* __restrict a = x.col(p);
  S* __restrict b = x.col(q);
  const S product = dot(a, b, x.rows);
  const double gamma = modulus(product), alpha = squares[p], beta = squares[q];
  if (!(gamma > kEpsilon * std::sqrt(alpha) * std::sqrt(beta)) || gamma < kSafeMinimum) return false;
  const double zeta = (beta - alpha) / (2 * gamma);
  const double t = std::copysign(1, zeta) / (std::fabs(zeta) + hypot(1, zeta));
  const double c = 1 / std::sqrt(1 + t * t), s = c * t;
  const S down = conj(product) * (s / gamma), up = product * (s / gamma);
  for (int64_t i = 0; i < x.rows; ++i) {
    const S u = a[i], v = b[i];
    a[i] = u * c - v * down;
    b[i] = u * up + v * c;
  }
  S* __restrict k = j.col(p);
  S* __restrict l = j.col(q);
  for (int64_t i = 0; i < j.rows; ++i) {
    const S u = k[i], v = l[i];
    k[i] = u * c - v * down;
    l[i] = u * up + v * c;
  }
  squares[p] = squared(norm(a, x.rows));
  squares[q] = squared(norm(b, x.rows));
  return true;
}

// x := x J with orthogonal columns, j := j J. squares [n] becomes their squared norms. False: it did not converge.
template <class S>
bool orthogonalize_columns(const Mat<S>& x, const Mat<S>& j, double* squares) {
  constexpr int kSweeps = 60;
  const int64_t n = x.cols, players = n + n % 2, pairs = players / 2;
  for (int64_t i = 0; i < n; ++i) squares[i] = squared(norm(x.col(i), x.rows));
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    int rotated = 0;
    for (int64_t round = 0; round + 1 < players; ++round) {
      const int64_t grain = x.rows > 4096 ? 1 : 8192 / (x.rows + 1) + 1;
      parallel_for(pairs, grain, [&](int64_t begin, int64_t end) {
        int mine = 0;
        for (int64_t k = begin; k < end; ++k) {
          // The last player stays, the others move round the table.
          const int64_t ring = players - 1;
          const int64_t one = k == 0 ? ring : (round + k) % ring, two = (round + ring - k) % ring;
          const int64_t p = one < two ? one : two, q = one < two ? two : one;
          if (q < n && rotate_pair(x, j, p, q, squares)) mine = 1;
        }
        if (mine) __atomic_store_n(&rotated, 1, __ATOMIC_RELAXED);
      });
    }
    if (!rotated) return true;
  }
  return false;
}

// Replaces columns `rank` and on of q, whose first columns are orthonormal, by an orthonormal basis of what they do not
// span.
template <class S>
bool complete_basis(const Mat<S>& q, int64_t rank) {
  if (rank >= q.cols) return true;
  WorkMatrix<S> a(q.rows, rank), whole(q.rows, q.cols);
  WorkArray<S> tau(rank);
  if (!a.ok() || !whole.ok() || !tau.ok()) return false;
  assign<S>(a, q);
  if (!factor_qr<S>(a, tau.get())) return false;
  set_identity<S>(whole);
  if (!apply_q<S>(a, tau.get(), rank, whole, false)) return false;
  for (int64_t j = rank; j < q.cols; ++j) {
    for (int64_t i = 0; i < q.rows; ++i) q(i, j) = whole(i, j);
  }
  return true;
}

// a [m, n], m >= n, is overwritten: a = u diag(s) v'. s [n] descends; u [m, n to m] and v [n, n] may have no rows when
// only the values are wanted. Returns false when there is no memory; info is 1 when the iteration did not converge.
template <class S>
bool singular_values(const Mat<S>& a, double* s, const Mat<S>& u, const Mat<S>& v, int64_t& info) {
  const int64_t n = a.cols;
  const bool vectors = u.rows > 0 || v.rows > 0;
  WorkMatrix<S> x(n, n), j(vectors ? n : 0, n);
  WorkArray<S> tau(n);
  WorkArray<double> squares(n);
  WorkArray<int64_t> order(n);
  if (!x.ok() || !j.ok() || !tau.ok() || !squares.ok() || !order.ok()) return false;
  if (!factor_qr<S>(a, tau.get())) return false;
  for (int64_t c = 0; c < n; ++c) {  // x = R'
    for (int64_t r = 0; r < n; ++r) x(r, c) = r < c ? from_real<S>(0) : conj(a(c, r));
  }
  // Squares of extreme numbers overflow or vanish.
  double largest = 0;
  for (int64_t c = 0; c < n; ++c) {
    const double m = norm(x.col(c), n);
    if (m > largest || m != m) largest = m;
  }
  double scale = 1;
  if (largest > 0 && largest < INFINITY && (largest > 0x1p400 || largest < 0x1p-400)) {
    scale = std::exp2(-std::floor(std::log2(largest)));
    for (int64_t c = 0; c < n; ++c) {
      for (int64_t r = 0; r < n; ++r) x(r, c) = x(r, c) * scale;
    }
  }
  set_identity<S>(j);
  // -4, LAPACK's number of the argument a, says that it is not finite.
  info = !(largest < INFINITY) ? -4 : orthogonalize_columns<S>(x, j, squares.get()) ? 0 : 1;
  if (info == -4) {
    for (int64_t i = 0; i < n; ++i) squares[i] = 0;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double value = norm(x.col(i), n);
    int64_t k = i;
    for (; k > 0 && squares[order[k - 1]] < value; --k) order[k] = order[k - 1];
    order[k] = i;
    squares[i] = value;
  }
  for (int64_t k = 0; k < n; ++k) s[k] = squares[order[k]] / scale;
  if (!vectors) return true;
  int64_t rank = 0;
  const double threshold = n > 0 ? squares[order[0]] * kEpsilon * kEpsilon : 0;
  while (rank < n && squares[order[rank]] > threshold) ++rank;
  // R' J = W diag(s), so a = (Q J) diag(s) W'.
  for (int64_t k = 0; v.rows > 0 && k < n; ++k) {
    const double value = squares[order[k]];
    for (int64_t i = 0; i < n; ++i) v(i, k) = k < rank ? x(i, order[k]) / value : from_real<S>(0);
  }
  if (v.rows > 0 && !complete_basis(v, rank)) return false;
  if (u.rows == 0) return true;
  set_identity(u);
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t i = 0; i < u.rows; ++i) u(i, k) = i < n ? j(i, order[k]) : from_real<S>(0);
  }
  return apply_q<S>(a, tau.get(), n, u, false);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg
