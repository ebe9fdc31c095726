// SPDX-License-Identifier: BSD-3-Clause
//
// The QR iteration on Hessenberg matrices: with single shifts on a complex one, with Francis's double shifts on a real
// one (G. Golub, C. Van Loan, Matrix Computations, 4th ed., 7.5). Deflation is the criterion of M. Ahues and F. Tisseur
// (LAPACK Working Note 122), and shifts are LAPACK's, so that eigenvalues come in the order in which LAPACK finds them.
#pragma once

#include "linalg_hessenberg.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

constexpr int64_t kExceptional = 10;  // iterations without a deflation before a shift is made up

// What counts as 0 beside other numbers, and in itself. For operands in F32 these are F32's: the computation in double
// then takes LAPACK's steps in F32, and finds the eigenvalues in the same order.
struct Precision {
  double epsilon = kEpsilon, minimum = kSafeMinimum;
  double small(int64_t n) const { return minimum * (static_cast<double>(n) / epsilon); }
};

template <class S>
bool negligible(const Mat<S>& h, int64_t k, int64_t low, int64_t high, double small, double epsilon) {
  const double sub = modulus1(h(k, k - 1));
  if (sub <= small) return true;
  double test = modulus1(h(k - 1, k - 1)) + modulus1(h(k, k));
  if (test == 0) {
    if (k - 2 >= low) test += std::fabs(real(h(k - 1, k - 2)));
    if (k + 1 < high) test += std::fabs(real(h(k + 1, k)));
  }
  if (std::fabs(real(h(k, k - 1))) > epsilon * test) return false;
  const double super = modulus1(h(k - 1, k)), ab = std::fmax(sub, super), ba = std::fmin(sub, super);
  const double one = modulus1(h(k, k)), two = modulus1(h(k - 1, k - 1) - h(k, k));
  const double aa = std::fmax(one, two), bb = std::fmin(one, two), s = aa + ab;
  return ba * (ab / s) <= std::fmax(small, epsilon * (bb * (aa / s)));
}

inline double sign(double x) { return std::copysign(1.0, x); }

// The standard form of a real 2 x 2 block: triangular, or with equal diagonal and off-diagonals of opposite signs.
inline void standardize(double& a, double& b, double& c, double& d, double& cs, double& sn, double epsilon) {
  cs = 1, sn = 0;
  if (c == 0) return;
  if (b == 0) {
    cs = 0, sn = 1;
    const double t = d;
    d = a, a = t, b = -c, c = 0;
    return;
  }
  double t = a - d;
  if (t == 0 && sign(b) != sign(c)) return;
  const double p = 0.5 * t, most = std::fmax(std::fabs(b), std::fabs(c));
  const double least = std::fmin(std::fabs(b), std::fabs(c)) * sign(b) * sign(c);
  const double scale = std::fmax(std::fabs(p), most);
  double z = p / scale * p + most / scale * least;
  if (z >= 4 * epsilon) {  // real eigenvalues
    z = p + std::copysign(std::sqrt(scale) * std::sqrt(z), p);
    a = d + z, d -= most / z * least;
    const double r = hypot(c, z);
    cs = z / r, sn = c / r, b -= c, c = 0;
    return;
  }
  const double sigma = b + c, r = hypot(sigma, t);
  cs = std::sqrt(0.5 * (1 + std::fabs(sigma) / r));
  sn = -(p / (r * cs)) * sign(sigma);
  const double aa = a * cs + b * sn, bb = -a * sn + b * cs, cc = c * cs + d * sn, dd = -c * sn + d * cs;
  a = aa * cs + cc * sn, b = bb * cs + dd * sn, c = -aa * sn + cc * cs, d = -bb * sn + dd * cs;
  t = 0.5 * (a + d);
  a = d = t;
  if (c == 0) return;
  if (b == 0) {
    b = -c, c = 0, t = cs, cs = -sn, sn = t;
  } else if (sign(b) == sign(c)) {  // real after all
    const double sab = std::sqrt(std::fabs(b)), sac = std::sqrt(std::fabs(c)), q = std::copysign(sab * sac, c);
    const double u = 1 / std::sqrt(std::fabs(b + c)), c1 = sab * u, s1 = sac * u;
    a = t + q, d = t - q, b -= c, c = 0;
    t = cs * c1 - sn * s1;
    sn = cs * s1 + sn * c1, cs = t;
  }
}

inline void rotate(double& x, double& y, double cs, double sn) {
  const double t = cs * x + sn * y;
  y = cs * y - sn * x, x = t;
}

// h becomes block triangular in standard form, z := z Q. Returns 0, or the number of eigenvalues not found.
inline int64_t schur_iteration(const Mat<double>& h, const Mat<double>& z, int64_t low, int64_t high,
                               const Precision& precision) {
  const int64_t n = h.rows, limit = 30 * (high - low < 10 ? 10 : high - low);
  const double epsilon = precision.epsilon, small = precision.small(high - low);
  for (int64_t i = high - 1; i >= low;) {
    int64_t l = low, stuck = 0;
    for (int64_t iteration = 0;; ++iteration) {
      int64_t k = i;
      while (k > l && !negligible(h, k, low, high, small, epsilon)) --k;
      l = k;
      if (l > low) h(l, l - 1) = 0;
      if (l >= i - 1) break;
      if (iteration >= limit) return i + 1;
      ++stuck;
      double h11 = h(i - 1, i - 1), h21 = h(i, i - 1), h12 = h(i - 1, i), h22 = h(i, i);
      if (stuck % kExceptional == 0) {
        const bool bottom = stuck % (2 * kExceptional) == 0;
        const double s = bottom ? std::fabs(h(i, i - 1)) + std::fabs(h(i - 1, i - 2))
                                : std::fabs(h(l + 1, l)) + std::fabs(h(l + 2, l + 1));
        h11 = h22 = 0.75 * s + (bottom ? h(i, i) : h(l, l));
        h12 = -0.4375 * s, h21 = s;
      }
      double s = std::fabs(h11) + std::fabs(h12) + std::fabs(h21) + std::fabs(h22);
      double r1 = 0, i1 = 0, r2 = 0, i2 = 0;
      if (s != 0) {
        h11 /= s, h21 /= s, h12 /= s, h22 /= s;
        const double half = (h11 + h22) / 2, det = (h11 - half) * (h22 - half) - h12 * h21;
        const double root = std::sqrt(std::fabs(det));
        if (det >= 0) {
          r1 = r2 = half * s, i1 = root * s, i2 = -i1;
        } else {  // two real shifts: the one nearer to h22, twice
          const double up = half + root, down = half - root;
          r1 = r2 = (std::fabs(up - h22) <= std::fabs(down - h22) ? up : down) * s;
        }
      }
      double v[3];
      int64_t m = i - 2;
      for (;; --m) {
        double h21s = std::fabs(h(m + 1, m));
        s = std::fabs(h(m, m) - r2) + std::fabs(i2) + h21s;
        h21s = h(m + 1, m) / s;
        v[0] = h21s * h(m, m + 1) + (h(m, m) - r1) * ((h(m, m) - r2) / s) - i1 * (i2 / s);
        v[1] = h21s * (h(m, m) + h(m + 1, m + 1) - r1 - r2);
        v[2] = h21s * h(m + 2, m + 1);
        s = std::fabs(v[0]) + std::fabs(v[1]) + std::fabs(v[2]);
        v[0] /= s, v[1] /= s, v[2] /= s;
        if (m == l) break;
        const double around = std::fabs(h(m - 1, m - 1)) + std::fabs(h(m, m)) + std::fabs(h(m + 1, m + 1));
        if (std::fabs(h(m, m - 1)) * (std::fabs(v[1]) + std::fabs(v[2])) <= epsilon * std::fabs(v[0]) * around) break;
      }
      for (k = m; k < i; ++k) {
        const int count = i - k + 1 < 3 ? 2 : 3;
        if (k > m) {
          for (int u = 0; u < count; ++u) v[u] = h(k + u, k - 1);
        }
        const double tau = make_reflector(v, count);
        if (k > m) {
          h(k, k - 1) = v[0], h(k + 1, k - 1) = 0;
          if (k < i - 1) h(k + 2, k - 1) = 0;
        } else if (m > l) {
          h(k, k - 1) *= 1 - tau;
        }
        const double v1 = v[1], v2 = count == 3 ? v[2] : 0;
        for (int64_t j = k; j < n; ++j) {
          double* x = h.col(j) + k;
          const double sum = tau * (x[0] + v1 * x[1] + (count == 3 ? v2 * x[2] : 0));
          x[0] -= sum, x[1] -= sum * v1;
          if (count == 3) x[2] -= sum * v2;
        }
        const auto columns = [&](const Mat<double>& a, int64_t rows) {
          double* __restrict x = a.col(k);
          double* __restrict y = a.col(k + 1);
          double* __restrict w = a.col(count == 3 ? k + 2 : k + 1);
          if (count == 3) {
            for (int64_t j = 0; j < rows; ++j) {
              const double sum = tau * (x[j] + v1 * y[j] + v2 * w[j]);
              x[j] -= sum, y[j] -= sum * v1, w[j] -= sum * v2;
            }
          } else {
            for (int64_t j = 0; j < rows; ++j) {
              const double sum = tau * (x[j] + v1 * y[j]);
              x[j] -= sum, y[j] -= sum * v1;
            }
          }
        };
        columns(h, k + 4 < i + 1 ? k + 4 : i + 1);
        columns(z, z.rows);
      }
    }
    if (l == i - 1) {
      double cs, sn;
      standardize(h(i - 1, i - 1), h(i - 1, i), h(i, i - 1), h(i, i), cs, sn, epsilon);
      for (int64_t j = i + 1; j < n; ++j) rotate(h(i - 1, j), h(i, j), cs, sn);
      for (int64_t j = 0; j < i - 1; ++j) rotate(h(j, i - 1), h(j, i), cs, sn);
      for (int64_t j = 0; j < z.rows; ++j) rotate(z(j, i - 1), z(j, i), cs, sn);
    }
    i = l - 1;
  }
  return 0;
}

inline Z square_root(Z a) {
  const double m = modulus(a);
  if (m == 0) return {0, 0};
  const double r = std::sqrt((m + std::fabs(a.re)) / 2), i = std::fabs(a.im) / (2 * r);
  return a.re >= 0 ? Z{r, std::copysign(i, a.im)} : Z{i, std::copysign(r, a.im)};
}

inline void scale_row(const Mat<Z>& a, int64_t row, int64_t begin, int64_t end, Z f) {
  for (int64_t j = begin; j < end; ++j) a(row, j) *= f;
}
inline void scale_column(const Mat<Z>& a, int64_t column, int64_t begin, int64_t end, Z f) {
  for (int64_t i = begin; i < end; ++i) a(i, column) *= f;
}

// h becomes triangular, z := z Q. The subdiagonal is kept real.
inline int64_t schur_iteration(const Mat<Z>& h, const Mat<Z>& z, int64_t low, int64_t high,
                               const Precision& precision) {
  const int64_t n = h.rows, limit = 30 * (high - low < 10 ? 10 : high - low);
  const double epsilon = precision.epsilon, small = precision.small(high - low);
  for (int64_t i = low + 1; i < high; ++i) {
    const Z x = h(i, i - 1);
    if (x.im == 0) continue;
    const double size = modulus(x);
    const Z f = conj(x) / size;
    h(i, i - 1) = {size, 0};
    scale_row(h, i, i, n, f);
    scale_column(h, i, 0, i + 2 < high ? i + 2 : high, conj(f));
    scale_column(z, i, 0, z.rows, conj(f));
  }
  for (int64_t i = high - 1; i >= low;) {
    int64_t l = low, stuck = 0;
    for (int64_t iteration = 0;; ++iteration) {
      int64_t k = i;
      while (k > l && !negligible(h, k, low, high, small, epsilon)) --k;
      l = k;
      if (l > low) h(l, l - 1) = {0, 0};
      if (l >= i) break;
      if (iteration >= limit) return i + 1;
      ++stuck;
      Z t = h(i, i);
      if (stuck % (2 * kExceptional) == 0) {
        t.re += 0.75 * std::fabs(h(i, i - 1).re);
      } else if (stuck % kExceptional == 0) {
        t = h(l, l);
        t.re += 0.75 * std::fabs(h(l + 1, l).re);
      } else {  // Wilkinson's
        const Z u = square_root(h(i - 1, i)) * square_root(h(i, i - 1));
        double s = modulus1(u);
        if (s != 0) {
          const Z x = 0.5 * (h(i - 1, i - 1) - t);
          const double sx = modulus1(x);
          s = std::fmax(s, sx);
          const Z xs = x / s, us = u / s;
          Z y = s * square_root(xs * xs + us * us);
          if (sx > 0 && x.re / sx * y.re + x.im / sx * y.im < 0) y = -y;
          t = t - u * (u / (x + y));
        }
      }
      Z v[2];
      int64_t m = i - 1;
      for (;; --m) {
        const Z h11 = h(m, m), h22 = h(m + 1, m + 1);
        Z h11s = h11 - t;
        double h21 = h(m + 1, m).re;
        const double s = modulus1(h11s) + std::fabs(h21);
        h11s = h11s / s, h21 /= s;
        v[0] = h11s, v[1] = {h21, 0};
        if (m == l) break;
        if (std::fabs(h(m, m - 1).re) * std::fabs(h21) <= epsilon * (modulus1(h11s) * (modulus1(h11) + modulus1(h22))))
          break;
      }
      for (k = m; k < i; ++k) {
        if (k > m) v[0] = h(k, k - 1), v[1] = h(k + 1, k - 1);
        const Z t1 = make_reflector(v, 2);
        if (k > m) h(k, k - 1) = v[0], h(k + 1, k - 1) = {0, 0};
        const Z v2 = v[1];
        const double t2 = (t1 * v2).re;
        for (int64_t j = k; j < n; ++j) {
          const Z sum = conj(t1) * h(k, j) + t2 * h(k + 1, j);
          h(k, j) -= sum;
          h(k + 1, j) -= sum * v2;
        }
        const auto columns = [&](const Mat<Z>& a, int64_t rows) {
          Z* __restrict x = a.col(k);
          Z* __restrict y = a.col(k + 1);
          for (int64_t j = 0; j < rows; ++j) {
            const Z sum = t1 * x[j] + t2 * y[j];
            x[j] -= sum;
            y[j] -= sum * conj(v2);
          }
        };
        columns(h, k + 3 < i + 1 ? k + 3 : i + 1);
        columns(z, z.rows);
        if (k == m && m > l) {  // keeps h(m, m - 1) real
          Z f = Z{1, 0} - t1;
          f = f / modulus(f);
          h(m + 1, m) *= conj(f);
          if (m + 2 <= i) h(m + 2, m + 1) *= f;
          for (int64_t j = m; j <= i; ++j) {
            if (j == m + 1) continue;
            scale_row(h, j, j + 1, n, f);
            scale_column(h, j, 0, j, conj(f));
            scale_column(z, j, 0, z.rows, conj(f));
          }
        }
      }
      const Z last = h(i, i - 1);
      if (last.im != 0) {
        const double size = modulus(last);
        const Z f = last / size;
        h(i, i - 1) = {size, 0};
        scale_row(h, i, i + 1, n, conj(f));
        scale_column(h, i, 0, i, f);
        scale_column(z, i, 0, z.rows, f);
      }
    }
    i = l - 1;
  }
  return 0;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg
