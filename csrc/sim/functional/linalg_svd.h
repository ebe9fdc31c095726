// SPDX-License-Identifier: BSD-3-Clause
//
// Singular values: a QR factorisation, Householder bidiagonalisation of R, and the implicit QR iteration on the
// bidiagonal matrix (G. Golub, C. Reinsch, Singular value decomposition and least squares solutions, 1970; Golub, Van
// Loan, 8.6). Small singular values are accurate to the precision of the largest.
#pragma once

#include "linalg_symmetric.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

// x [n, n] := U B V'. B is real, with diagonal d [n] and superdiagonal e [n - 1]; the reflectors of U stand on and
// below the diagonal of x, those of V below the diagonal of g. z, w [n] are work memory. The update from the right is
// put off until the next step reads the columns anyway.
template <class S>
void bidiagonalize(const Mat<S>& x, const Mat<S>& g, double* d, double* e, S* tau_u, S* tau_v, S* z, S* w) {
  const int64_t n = x.rows;
  const auto columns = [&](int64_t first, const auto& f) {
    parallel_for(n - first, 65536 / (n + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t j = first + begin; j < first + end; ++j) f(x.col(j), j);
    });
  };
  for (int64_t k = 0; k < n; ++k) {
    const S* v = k > 0 ? g.col(k - 1) : nullptr;              // of the last step, from row k on
    const auto late = [&](S* __restrict column, int64_t j) {  // column -= w conj(v[j])
      if (k == 0) return;
      const S y = conj(v[j]);
      for (int64_t i = k; i < n; ++i) column[i] = column[i] - w[i] * y;
    };
    late(x.col(k), k);
    S* u = x.col(k) + k;
    tau_u[k] = make_reflector(u, n - k);
    d[k] = real(u[0]);
    u[0] = from_real<S>(1);
    const S factor = conj(tau_u[k]);
    columns(k + 1, [&](S* column, int64_t j) {
      late(column, j);
      z[j] = factor * dot(u, column + k, n - k);
    });
    if (k + 1 < n) {
      S* right = g.col(k);  // the adjoint of the row, then its reflector
      for (int64_t j = k + 1; j < n; ++j) right[j] = conj(x(k, j) - z[j]);
      tau_v[k] = make_reflector(right + k + 1, n - k - 1);
      e[k] = real(right[k + 1]);
      right[k + 1] = from_real<S>(1);
      const int64_t rows = n - k - 1, strip = 256;
      parallel_for((rows + strip - 1) / strip, rows > 384 ? 1 : n, [&](int64_t begin, int64_t end) {
        const int64_t from = k + 1 + begin * strip, to = k + 1 + end * strip < n ? k + 1 + end * strip : n;
        for (int64_t i = from; i < to; ++i) w[i] = from_real<S>(0);
        for (int64_t j = k + 1; j < n; ++j) {  // column -= u z[j]; w += column right[j]
          S* __restrict column = x.col(j);
          const S a = z[j], b = tau_v[k] * right[j];
          for (int64_t i = from; i < to; ++i) {
            column[i] = column[i] - u[i - k] * a;
            w[i] = w[i] + column[i] * b;
          }
        }
      });
    }
  }
}

// d becomes the singular values of the bidiagonal matrix, not sorted; the columns of u and v (if they have rows) are
// multiplied by the singular vectors. work [4 n]. Returns 0, or the number of the value that did not converge.
template <class S>
int64_t iterate_bidiagonal(double* d, double* e, int64_t n, const Mat<S>& u, const Mat<S>& v, double* work) {
  constexpr int kIterations = 75;  // for one value
  double *cu = work, *su = work + n, *cv = work + 2 * n, *sv = work + 3 * n;
  double size = 0;
  for (int64_t i = 0; i < n; ++i) size = std::fmax(size, std::fabs(d[i]) + (i > 0 ? std::fabs(e[i - 1]) : 0));
  const double small = 0.5 * kEpsilon * size;
  for (int64_t k = n - 1; k >= 0; --k) {
    for (int iteration = 0;; ++iteration) {
      int64_t l = k;
      bool zero_above = false;
      for (; l > 0; --l) {
        if (std::fabs(e[l - 1]) <= small) break;
        if (std::fabs(d[l - 1]) <= small) {
          zero_above = true;
          break;
        }
      }
      if (zero_above) {  // d[l - 1] is 0: e[l - 1] is rotated away to the right
        double c = 0, s = 1;
        for (int64_t i = l; i <= k; ++i) {
          const double f = s * e[i - 1];
          e[i - 1] *= c;
          if (std::fabs(f) <= small) break;
          const double r = hypot(f, d[i]);
          c = d[i] / r, s = -f / r;
          d[i] = r;
          for (int64_t row = 0; row < u.rows; ++row) {
            const S a = u(row, l - 1), b = u(row, i);
            u(row, l - 1) = a * c + b * s;
            u(row, i) = b * c - a * s;
          }
        }
      }
      if (l == k) break;
      if (iteration == kIterations) return k + 1;
      // The shift: the eigenvalue of the lower 2 x 2 corner of B' B that is nearer to its last entry.
      double x = d[l], y = d[k - 1], z = d[k], g = k > 1 ? e[k - 2] : 0, h = e[k - 1];
      double f = ((y - z) * (y + z) + (g - h) * (g + h)) / (2 * h * y);
      f = ((x - z) * (x + z) + h * (y / (f + std::copysign(hypot(f, 1), f)) - h)) / x;
      double c = 1, s = 1;
      for (int64_t j = l; j < k; ++j) {
        g = e[j], y = d[j + 1];
        h = s * g, g = c * g;
        double r = hypot(f, h);
        if (j > l) e[j - 1] = r;
        if (r != 0) c = f / r, s = h / r;
        else c = 1, s = 0;
        cv[j - l] = c, sv[j - l] = -s;
        f = x * c + g * s, g = g * c - x * s;
        h = y * s, y = y * c;
        r = hypot(f, h);
        d[j] = r;
        if (r != 0) c = f / r, s = h / r;
        cu[j - l] = c, su[j - l] = -s;
        f = c * g + s * y, x = c * y - s * g;
      }
      e[k - 1] = f;
      d[k] = x;
      rotate_columns(v, l, k - l, cv, sv, true);
      rotate_columns(u, l, k - l, cu, su, true);
    }
    if (d[k] >= 0) continue;
    d[k] = -d[k];
    for (int64_t i = 0; i < v.rows; ++i) v(i, k) = -v(i, k);
  }
  return 0;
}

// a [m, n], m >= n, is overwritten: a = u diag(s) v'. s [n] descends; u [m, n to m] and v [n, n] have no rows when only
// the values are wanted. Returns false when there is no memory; info is LAPACK's: not 0 without convergence.
template <class S>
bool singular_values(const Mat<S>& a, double* s, const Mat<S>& u, const Mat<S>& v, int64_t& info) {
  const int64_t n = a.cols, rows = u.rows > 0 && v.rows > 0 ? n : 0;
  WorkMatrix<S> x(n, n), g(n, n), left(rows, n), right(rows, n);
  WorkArray<S> tau(n), tau_u(n), tau_v(n), z(n), w(n);
  WorkArray<double> d(n), e(n), work(4 * n);
  WorkArray<int64_t> order(n);
  if (!x.ok() || !g.ok() || !left.ok() || !right.ok() || !tau.ok() || !tau_u.ok() || !tau_v.ok() || !z.ok() ||
      !w.ok() || !d.ok() || !e.ok() || !work.ok() || !order.ok() || !factor_qr<S>(a, tau.get())) {
    return false;
  }
  double largest = 0;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) x(i, j) = i > j ? from_real<S>(0) : a(i, j);
    const double m = norm(x.col(j), n);
    if (m > largest || m != m) largest = m;
  }
  double scale = 1;  // squares of extreme numbers overflow or vanish
  if (largest > 0 && largest < INFINITY && (largest > 0x1p400 || largest < 0x1p-400)) {
    scale = std::exp2(-std::floor(std::log2(largest)));
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i <= j; ++i) x(i, j) = x(i, j) * scale;
    }
  }
  info = largest < INFINITY ? 0 : -4;  // LAPACK's number of the argument that is not finite
  set_identity<S>(left);
  set_identity<S>(right);
  for (int64_t i = 0; i < n; ++i) d[i] = 0;
  if (info == 0) {
    bidiagonalize<S>(x, g, d.get(), e.get(), tau_u.get(), tau_v.get(), z.get(), w.get());
    if (rows > 0 && !apply_q<S>(x, tau_u.get(), n, left, false)) return false;
    if (rows > 1 &&
        !apply_q<S>(g.block(1, 0, n - 1, n - 1), tau_v.get(), n - 1, right.block(1, 1, n - 1, n - 1), false)) {
      return false;
    }
    info = iterate_bidiagonal<S>(d.get(), e.get(), n, left, right, work.get());
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t k = i;
    for (; k > 0 && d[order[k - 1]] < d[i]; --k) order[k] = order[k - 1];
    order[k] = i;
  }
  for (int64_t k = 0; k < n; ++k) s[k] = d[order[k]] / scale;
  if (rows == 0) return true;
  set_identity(u);
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t i = 0; i < n; ++i) v(i, k) = right(i, order[k]);
    for (int64_t i = 0; i < u.rows; ++i) u(i, k) = i < n ? left(i, order[k]) : from_real<S>(0);
  }
  return apply_q<S>(a, tau.get(), n, u, false);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg
