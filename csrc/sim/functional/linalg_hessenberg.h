// SPDX-License-Identifier: BSD-3-Clause
//
// What comes before the QR iteration on a general matrix: balancing (B. Parlett, C. Reinsch, 1969) and Householder
// reduction to Hessenberg form (G. Golub, C. Van Loan, Matrix Computations, 4th ed., 7.4 and 7.5).
#pragma once

#include "linalg_householder.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

template <class S>
void swap_columns(const Mat<S>& a, int64_t r, int64_t s, int64_t rows) {
  for (int64_t i = 0; r != s && i < rows; ++i) {
    const S x = a(i, r);
    a(i, r) = a(i, s), a(i, s) = x;
  }
}

// Rows and columns [low, high) are what the iteration has to work on. scale[i]: inside, the factor of row i; outside,
// the row that i was exchanged for.
struct Balance {
  int64_t low = 0, high = 0;
  double* scale;
};

template <class S>
bool isolated(const Mat<S>& a, int64_t i, int64_t low, int64_t high, bool row) {
  for (int64_t j = low; j < high; ++j) {
    if (j != i && !is_zero(row ? a(i, j) : a(j, i))) return false;
  }
  return true;
}

template <class S>
void exchange(const Mat<S>& a, Balance& balance, int64_t i, int64_t with) {
  balance.scale[with] = static_cast<double>(i);
  swap_columns(a, i, with, balance.high);
  for (int64_t j = balance.low; i != with && j < a.cols; ++j) {
    const S x = a(i, j);
    a(i, j) = a(with, j), a(with, j) = x;
  }
}

template <class S>
void balance_matrix(const Mat<S>& a, Balance& balance) {
  int64_t &low = balance.low, &high = balance.high;
  low = 0, high = a.rows;
  for (int64_t i = high; i-- > 0;) {  // rows that show an eigenvalue go down
    if (!isolated(a, i, 0, high, true)) continue;
    exchange(a, balance, i, high - 1);
    if (--high == 0) return;
    i = high;
  }
  for (int64_t j = low; j < high; ++j) {  // columns that do go left
    if (!isolated(a, j, low, high, false)) continue;
    exchange(a, balance, j, low);
    j = low++;
  }
  for (int64_t i = low; i < high; ++i) balance.scale[i] = 1;
  for (bool changed = true; changed;) {
    changed = false;
    for (int64_t i = low; i < high; ++i) {
      double c = norm(a.col(i) + low, high - low), r2 = 0;
      for (int64_t j = low; j < high; ++j) r2 += squared(a(i, j));
      double r = std::sqrt(r2);
      if (!(c > 0) || !(r > 0) || !(c + r < INFINITY)) continue;
      const double before = c + r;
      double f = 1;
      for (; c < r / 2 && f < 0x1p400; c *= 2, r /= 2) f *= 2;
      for (; c >= r * 2 && f > 0x1p-400; c /= 2, r *= 2) f /= 2;
      if (f == 1 || c + r >= 0.95 * before) continue;
      balance.scale[i] *= f;
      changed = true;
      for (int64_t j = low; j < a.cols; ++j) a(i, j) = a(i, j) / f;
      for (int64_t j = 0; j < high; ++j) a(j, i) = a(j, i) * f;
    }
  }
}

// Undoes the balancing in the rows of v.
template <class S>
void unbalance(const Mat<S>& v, const Balance& balance) {
  for (int64_t j = 0; j < v.cols; ++j) {
    for (int64_t i = balance.low; i < balance.high; ++i) v(i, j) = v(i, j) * balance.scale[i];
  }
  const auto undo = [&](int64_t i) {
    const int64_t other = static_cast<int64_t>(balance.scale[i]);
    for (int64_t j = 0; other != i && j < v.cols; ++j) {
      const S x = v(i, j);
      v(i, j) = v(other, j), v(other, j) = x;
    }
  };
  for (int64_t i = balance.low; i-- > 0;) undo(i);
  for (int64_t i = balance.high; i < v.rows; ++i) undo(i);
}

// a := Q' a Q of Hessenberg form, z := Q unless it has no rows. tau [n] and w [n] are work memory.
template <class S>
bool reduce_to_hessenberg(const Mat<S>& a, const Balance& balance, const Mat<S>& z, S* tau, S* w) {
  const int64_t n = a.rows, low = balance.low, high = balance.high;
  for (int64_t k = low; k + 2 < high; ++k) {
    const int64_t m = high - k - 1;
    S* __restrict v = a.col(k) + k + 1;
    tau[k] = make_reflector(v, m);
    const S beta = v[0];
    v[0] = from_real<S>(1);
    // From the right: a (I - tau v v').
    for (int64_t i = 0; i < high; ++i) w[i] = from_real<S>(0);
    for (int64_t j = 0; j < m; ++j) {
      const S* column = a.col(k + 1 + j);
      const S x = v[j];
      for (int64_t i = 0; i < high; ++i) w[i] = w[i] + column[i] * x;
    }
    for (int64_t j = 0; j < m; ++j) {
      S* column = a.col(k + 1 + j);
      const S x = tau[k] * conj(v[j]);
      for (int64_t i = 0; i < high; ++i) column[i] = column[i] - w[i] * x;
    }
    apply_reflector(v, conj(tau[k]), a.block(k + 1, k + 1, m, n - k - 1));
    v[0] = beta;
  }
  set_identity(z);
  const int64_t count = high - low - 2;
  if (z.rows > 0 && count > 0) {
    const int64_t m = high - low - 1;
    if (!apply_q<S>(a.block(low + 1, low, m, count), tau + low, count, z.block(low + 1, low + 1, m, m), false)) {
      return false;
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = j + 2; i < n; ++i) a(i, j) = from_real<S>(0);
  }
  return true;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg
