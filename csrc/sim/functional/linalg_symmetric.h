// SPDX-License-Identifier: BSD-3-Clause
//
// Eigenvalues and eigenvectors of Hermitian matrices: Householder tridiagonalisation and the implicit QL iteration with
// Wilkinson's shift (G. Golub, C. Van Loan, Matrix Computations, 4th ed., 8.3; A. Dubrulle, R. Martin, J. Wilkinson,
// The implicit QL algorithm, 1968).
#pragma once

#include "linalg_householder.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

// The lower triangle of a becomes Q T Q': reflectors below the subdiagonal, their factors in tau [n - 1], T's diagonal
// in d [n] and its subdiagonal, which is real, in e [n - 1]. w [n] is work memory.
template <class S>
void tridiagonalize(const Mat<S>& a, double* d, double* e, S* tau, S* w) {
  const int64_t n = a.rows;
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int64_t m = n - k - 1;
    S* __restrict v = a.col(k) + k + 1;
    tau[k] = make_reflector(v, m);
    e[k] = real(v[0]);
    d[k] = real(a(k, k));
    if (is_zero(tau[k])) continue;
    const Mat<S> c = a.block(k + 1, k + 1, m, m);
    v[0] = from_real<S>(1);
    for (int64_t i = 0; i < m; ++i) w[i] = from_real<S>(0);
    for (int64_t j = 0; j < m; ++j) {  // w := c v, from the lower triangle
      const S* __restrict column = c.col(j);
      const S x = v[j];
      w[j] = w[j] + real(column[j]) * x + dot(column + j + 1, v + j + 1, m - j - 1);
      for (int64_t i = j + 1; i < m; ++i) w[i] = w[i] + column[i] * x;
    }
    for (int64_t i = 0; i < m; ++i) w[i] = tau[k] * w[i];
    const S shift = -(tau[k] * dot(w, v, m) * 0.5);
    for (int64_t i = 0; i < m; ++i) w[i] = w[i] + shift * v[i];
    for (int64_t j = 0; j < m; ++j) {  // c -= v w' + w v'
      S* __restrict column = c.col(j);
      const S x = conj(w[j]), y = conj(v[j]);
      for (int64_t i = j; i < m; ++i) column[i] = column[i] - (v[i] * x + w[i] * y);
    }
    v[0] = from_real<S>(e[k]);
  }
  if (n > 0) d[n - 1] = real(a(n - 1, n - 1));
}

// Rotates columns first + i and first + i + 1 of z for i = count - 1 ... 0, or 0 ... count - 1 when ascending. By
// strips of rows, which stay in cache and go to different threads.
template <class S>
void rotate_columns(const Mat<S>& z, int64_t first, int64_t count, const double* c, const double* s, bool ascending) {
  constexpr int64_t kStrip = 64;
  if (z.rows == 0) return;
  const int64_t strips = (z.rows + kStrip - 1) / kStrip;
  parallel_for(strips, count > 256 ? 1 : strips, [&](int64_t begin, int64_t end) {
    for (int64_t strip = begin; strip < end; ++strip) {
      const int64_t row = strip * kStrip, rows = z.rows - row < kStrip ? z.rows - row : kStrip;
      for (int64_t step = 0; step < count; ++step) {
        const int64_t i = ascending ? step : count - 1 - step;
        S* __restrict x = z.col(first + i) + row;
        S* __restrict y = z.col(first + i + 1) + row;
        const double ci = c[i], si = s[i];
        for (int64_t r = 0; r < rows; ++r) {
          const S a = x[r], b = y[r];
          x[r] = a * ci - b * si;
          y[r] = a * si + b * ci;
        }
      }
    }
  });
}

// d becomes the eigenvalues of the tridiagonal matrix, not sorted; the columns of z (if it has rows) are multiplied by
// the eigenvectors. work [2 n]. Returns 0, or the number of the eigenvalue that did not converge.
template <class S>
int64_t iterate_ql(double* d, double* e, int64_t n, const Mat<S>& z, double* work) {
  constexpr int kIterations = 60;  // for one eigenvalue
  if (n > 0) e[n - 1] = 0;
  for (int64_t l = 0; l < n; ++l) {
    for (int iteration = 0;; ++iteration) {
      int64_t m = l;
      for (; m + 1 < n; ++m) {
        if (std::fabs(e[m]) <= 0.5 * kEpsilon * (std::fabs(d[m]) + std::fabs(d[m + 1])) ||
            std::fabs(e[m]) < kSafeMinimum) {
          break;
        }
      }
      if (m == l) break;
      if (iteration == kIterations) return l + 1;
      double g = (d[l + 1] - d[l]) / (2 * e[l]);
      g = d[m] - d[l] + e[l] / (g + std::copysign(hypot(g, 1), g));
      double sine = 1, cosine = 1, p = 0;
      int64_t i = m - 1;
      for (; i >= l; --i) {
        const double f = sine * e[i], b = cosine * e[i], r = hypot(f, g);
        e[i + 1] = r;
        if (r == 0) {  // an eigenvalue split off: start anew
          d[i + 1] -= p;
          e[m] = 0;
          break;
        }
        sine = f / r, cosine = g / r;
        g = d[i + 1] - p;
        const double t = (d[i] - g) * sine + 2 * cosine * b;
        p = sine * t;
        d[i + 1] = g + p;
        g = cosine * t - b;
        work[i - l] = cosine, work[n + i - l] = sine;
      }
      const int64_t from = i + 1 > l ? i + 1 : l;
      rotate_columns(z, from, m - from, work + (from - l), work + n + (from - l), false);
      if (i >= l) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  }
  return 0;
}

// Work memory of one Hermitian eigenproblem.
template <class S>
struct HermitianEigen {
  int64_t n;
  WorkArray<double> d, e, work;
  WorkArray<S> tau, w;
  WorkArray<int64_t> order;  // order[k]: the number of the k-th smallest eigenvalue

  explicit HermitianEigen(int64_t size) : n(size), d(n), e(n), work(2 * n), tau(n), w(n), order(n) {}
  bool ok() const { return d.ok() && e.ok() && work.ok() && tau.ok() && w.ok() && order.ok(); }

  // Of the lower triangle of a, which is overwritten. z [n, n], or [0, n] when only the values are wanted, becomes the
  // eigenvectors. False: no memory.
  bool run(const Mat<S>& a, const Mat<S>& z, int64_t& info) {
    tridiagonalize<S>(a, d.get(), e.get(), tau.get(), w.get());
    set_identity(z);
    if (z.rows > 1 && !apply_q<S>(a.block(1, 0, n - 1, n - 1), tau.get(), n - 1, z.block(1, 1, n - 1, n - 1), false)) {
      return false;
    }
    info = iterate_ql<S>(d.get(), e.get(), n, z, work.get());
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    for (int64_t i = 1; i < n; ++i) {  // few inversions: QL finds the values in about ascending order
      const int64_t x = order[i];
      int64_t j = i;
      for (; j > 0 && d[order[j - 1]] > d[x]; --j) order[j] = order[j - 1];
      order[j] = x;
    }
    return true;
  }
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg
