// SPDX-License-Identifier: BSD-3-Clause
//
// Symmetric and Hermitian indefinite matrices: A = L D L' with the diagonal pivoting of J. Bunch and L. Kaufman (Some
// stable methods for calculating inertia and solving symmetric linear systems, 1977; Golub, Van Loan, 4.4), in the form
// and with the pivots of LAPACK's xSYTRF and xHETRF for the lower triangle: pivots[k] = p > 0 says that row k was
// exchanged for row p - 1, and pivots[k] = pivots[k + 1] = -p < 0 that row k + 1 was, and D has a 2 x 2 block there.
#pragma once

#include "linalg_product.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

template <class S>
ATALLA_SCALAR S mirrored(S a, bool hermitian) {
  return hermitian ? conj(a) : a;
}
template <class S>
ATALLA_SCALAR S diagonal_entry(S a, bool hermitian) {
  return hermitian ? from_real<S>(real(a)) : a;
}

// Exchanges rows and columns kk and kp > kk of the trailing lower triangle that starts at k.
template <class S>
void exchange_symmetric(const Mat<S>& a, int64_t k, int64_t kk, int64_t kp, bool hermitian) {
  const int64_t n = a.rows;
  for (int64_t i = kp + 1; i < n; ++i) {
    const S x = a(i, kk);
    a(i, kk) = a(i, kp), a(i, kp) = x;
  }
  for (int64_t j = kk + 1; j < kp; ++j) {
    const S x = mirrored(a(j, kk), hermitian);
    a(j, kk) = mirrored(a(kp, j), hermitian), a(kp, j) = x;
  }
  a(kp, kk) = mirrored(a(kp, kk), hermitian);
  const S x = diagonal_entry(a(kk, kk), hermitian);
  a(kk, kk) = diagonal_entry(a(kp, kp), hermitian), a(kp, kp) = x;
  if (kk == k) return;
  const S y = a(k + 1, k);
  a(k + 1, k) = a(kp, k), a(kp, k) = y;
}

// The lower triangle of a := L and D. Returns 0, or the number (from 1) of the first zero of D's diagonal.
template <class S>
int64_t factor_ldl(const Mat<S>& a, int64_t* pivots, bool hermitian) {
  const double alpha = (1 + std::sqrt(17.0)) / 8;
  const int64_t n = a.rows;
  int64_t info = 0;
  for (int64_t k = 0, step = 1; k < n; k += step) {
    step = 1;
    int64_t pivot = k, most = k;
    const double here = hermitian ? std::fabs(real(a(k, k))) : modulus1(a(k, k));
    double below = 0;
    for (int64_t i = k + 1; i < n; ++i) {
      if (modulus1(a(i, k)) > below) below = modulus1(a(i, k)), most = i;
    }
    if (!(here > 0) && below == 0) {
      if (info == 0) info = k + 1;
      a(k, k) = diagonal_entry(a(k, k), hermitian);
      pivots[k] = k + 1;
      continue;
    }
    if (here < alpha * below) {
      double row = 0;
      for (int64_t j = k; j < most; ++j) row = std::fmax(row, modulus1(a(most, j)));
      for (int64_t i = most + 1; i < n; ++i) row = std::fmax(row, modulus1(a(i, most)));
      const double there = hermitian ? std::fabs(real(a(most, most))) : modulus1(a(most, most));
      if (here < alpha * below * (below / row)) {
        pivot = most;
        if (there < alpha * row) step = 2;
      }
    }
    const int64_t kk = k + step - 1;
    if (pivot != kk) exchange_symmetric(a, k, kk, pivot, hermitian);
    else if (hermitian) a(kk, kk) = diagonal_entry(a(kk, kk), true);
    if (hermitian) a(k, k) = diagonal_entry(a(k, k), true);
    if (step == 1) {
      const S d = from_real<S>(1) / a(k, k);
      for (int64_t j = k + 1; j < n; ++j) {
        const S x = d * mirrored(a(j, k), hermitian);
        const S* __restrict column = a.col(k);
        S* __restrict out = a.col(j);
        for (int64_t i = j; i < n; ++i) out[i] = out[i] - column[i] * x;
        a(j, j) = diagonal_entry(a(j, j), hermitian);
      }
      for (int64_t i = k + 1; i < n; ++i) a(i, k) = a(i, k) * d;
      pivots[k] = pivot + 1;
      continue;
    }
    // The inverse of [p, conj(q); q, r], by way of numbers divided by |q| or q.
    S d11, d22, d21, t;
    if (hermitian) {
      const double size = modulus(a(k + 1, k));
      d11 = a(k + 1, k + 1) / size, d22 = a(k, k) / size, d21 = a(k + 1, k) / size;
      t = from_real<S>(1 / (real(d11) * real(d22) - 1) / size);
    } else {
      const S q = a(k + 1, k);
      d11 = a(k + 1, k + 1) / q, d22 = a(k, k) / q, d21 = from_real<S>(1);
      t = from_real<S>(1) / (d11 * d22 - from_real<S>(1)) / q;
    }
    for (int64_t j = k + 2; j < n; ++j) {
      const S x = t * (d11 * a(j, k) - d21 * a(j, k + 1));
      const S y = t * (d22 * a(j, k + 1) - mirrored(d21, hermitian) * a(j, k));
      const S u = mirrored(x, hermitian), v = mirrored(y, hermitian);
      const S* __restrict first = a.col(k);
      const S* __restrict second = a.col(k + 1);
      S* __restrict out = a.col(j);
      for (int64_t i = j; i < n; ++i) out[i] = out[i] - (first[i] * u + second[i] * v);
      a(j, k) = x, a(j, k + 1) = y;
      a(j, j) = diagonal_entry(a(j, j), hermitian);
    }
    pivots[k] = pivots[k + 1] = -(pivot + 1);
  }
  return info;
}

template <class S>
void subtract_multiple(S* b, const S* column, S x, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) b[i] = b[i] - column[i] * x;
}
template <class S>
S product_below(const S* column, const S* b, int64_t begin, int64_t end, bool hermitian) {
  S sum = from_real<S>(0);
  for (int64_t i = begin; i < end; ++i) sum += mirrored(column[i], hermitian) * b[i];
  return sum;
}

// b := A^-1 b for one column, with the factors of factor_ldl.
template <class S>
void solve_ldl(const Mat<S>& a, const int64_t* pivots, S* b, bool hermitian) {
  const int64_t n = a.rows;
  const auto swap = [&](int64_t i, int64_t j) {
    const S x = b[i];
    b[i] = b[j], b[j] = x;
  };
  for (int64_t k = 0; k < n;) {
    if (pivots[k] > 0) {
      swap(k, pivots[k] - 1);
      subtract_multiple(b, a.col(k), b[k], k + 1, n);
      b[k] = b[k] / (hermitian ? from_real<S>(real(a(k, k))) : a(k, k));
      ++k;
      continue;
    }
    swap(k + 1, -pivots[k] - 1);
    subtract_multiple(b, a.col(k), b[k], k + 2, n);
    subtract_multiple(b, a.col(k + 1), b[k + 1], k + 2, n);
    const S q = a(k + 1, k), p = mirrored(q, hermitian);
    const S one = a(k, k) / p, two = a(k + 1, k + 1) / q, denominator = one * two - from_real<S>(1);
    const S x = b[k] / p, y = b[k + 1] / q;
    b[k] = (two * x - y) / denominator;
    b[k + 1] = (one * y - x) / denominator;
    k += 2;
  }
  for (int64_t k = n - 1; k >= 0;) {
    b[k] = b[k] - product_below(a.col(k), b, k + 1, n, hermitian);
    if (pivots[k] > 0) {
      swap(k, pivots[k] - 1);
      --k;
      continue;
    }
    b[k - 1] = b[k - 1] - product_below(a.col(k - 1), b, k + 1, n, hermitian);
    swap(k, -pivots[k] - 1);
    k -= 2;
  }
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg
