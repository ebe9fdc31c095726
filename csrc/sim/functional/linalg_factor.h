// SPDX-License-Identifier: BSD-3-Clause
//
// LU with partial pivoting and Cholesky, blocked and right-looking (G. Golub, C. Van Loan, Matrix Computations, 4th
// ed., 3.4 and 4.2). Pivots and `info` are LAPACK's.
#pragma once

#include "linalg_product.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

template <class S>
void swap_rows(const Mat<S>& a, int64_t r, int64_t s) {
  for (int64_t j = 0; r != s && j < a.cols; ++j) {
    const S x = a(r, j);
    a(r, j) = a(s, j), a(s, j) = x;
  }
}

// a := L and U, with row i exchanged for row pivots[i] (from 0) in step i. Returns 0, or the number (from 1) of the
// first zero pivot.
template <class S>
int64_t factor_lu(const Mat<S>& a, int64_t* pivots, bool pivoting) {
  constexpr int64_t kBlock = 32;
  const int64_t steps = a.rows < a.cols ? a.rows : a.cols;
  int64_t info = 0;
  for (int64_t k0 = 0; k0 < steps; k0 += kBlock) {
    const int64_t size = steps - k0 < kBlock ? steps - k0 : kBlock;
    const Mat<S> panel = a.block(0, k0, a.rows, size);
    for (int64_t k = k0; k < k0 + size; ++k) {
      S* column = a.col(k);
      int64_t best = k;
      for (int64_t i = k + 1; pivoting && i < a.rows; ++i) {
        if (modulus1(column[i]) > modulus1(column[best])) best = i;
      }
      pivots[k] = best;
      if (is_zero(column[best])) {
        if (info == 0) info = k + 1;
      } else {
        swap_rows(panel, k, best);
        const S inverse = from_real<S>(1) / column[k];
        const bool exact = modulus1(column[k]) >= kSafeMinimum;
        for (int64_t i = k + 1; i < a.rows; ++i) column[i] = exact ? column[i] * inverse : column[i] / column[k];
      }
      for (int64_t j = k + 1; j < k0 + size; ++j) {
        S* __restrict other = a.col(j);
        const S x = other[k];
        for (int64_t i = k + 1; i < a.rows; ++i) other[i] = other[i] - column[i] * x;
      }
    }
    const int64_t next = k0 + size;
    for (int64_t k = k0; k < next; ++k) {
      swap_rows(a.block(0, 0, a.rows, k0), k, pivots[k]);
      swap_rows(a.block(0, next, a.rows, a.cols - next), k, pivots[k]);
    }
    const Mat<S> right = a.block(k0, next, size, a.cols - next);
    solve_triangle(a.block(k0, k0, size, size), right, false, true);
    add_product(a.block(next, next, a.rows - next, a.cols - next), a.block(next, k0, a.rows - next, size), right, -1.0);
  }
  return info;
}

// The lower triangle of a Hermitian matrix := L. Returns 0, or the order (from 1) of the first leading minor that is
// not positive definite. Null-safe: false when there is no memory.
template <class S>
bool factor_cholesky(const Mat<S>& a, int64_t& info) {
  constexpr int64_t kBlock = 32;
  const int64_t n = a.rows;
  info = 0;
  WorkMatrix<S> adjoint(kBlock, n);
  if (!adjoint.ok()) return false;
  for (int64_t k0 = 0; k0 < n; k0 += kBlock) {
    const int64_t size = n - k0 < kBlock ? n - k0 : kBlock, next = k0 + size;
    for (int64_t k = k0; k < next; ++k) {
      S* column = a.col(k);
      const double pivot = real(column[k]);
      if (!(pivot > 0)) {
        info = k + 1;
        return true;
      }
      const double root = std::sqrt(pivot);
      column[k] = from_real<S>(root);
      for (int64_t i = k + 1; i < n; ++i) column[i] = column[i] / root;
      for (int64_t j = k + 1; j < next; ++j) {
        S* __restrict other = a.col(j);
        const S x = conj(column[j]);
        for (int64_t i = j; i < n; ++i) other[i] = other[i] - column[i] * x;
      }
    }
    // The trailing triangle by strips of columns, each from its first row on.
    const Mat<S> below = a.block(next, k0, n - next, size);
    const Mat<S> right = adjoint.block(0, 0, size, n - next);
    assign_adjoint(right, below);
    constexpr int64_t kStrip = 32;
    parallel_for((n - next + kStrip - 1) / kStrip, n - next > 512 ? 1 : n, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        const int64_t j = s * kStrip, width = n - next - j < kStrip ? n - next - j : kStrip;
        add_product_columns(a.block(next + j, next + j, n - next - j, width), below.block(j, 0, n - next - j, size),
                            right.block(0, j, size, width), -1.0, 0, width);
      }
    });
  }
  return true;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg
