// SPDX-License-Identifier: BSD-3-Clause
//
// Householder reflectors H = I - tau v v', v[0] = 1, with LAPACK's choice of signs (xLARFG), and products of them in
// blocks: H1 H2 ... Hk = I - V T V' with an upper triangular T (R. Schreiber, C. Van Loan, A storage-efficient WY
// representation for products of Householder transformations, 1989).
#pragma once

#include "linalg_product.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

constexpr int64_t kReflectors = 32;  // a block

// Makes the reflector with H' x = (beta, 0, ..., 0), beta real: x becomes (beta, v[1], ...); returns tau.
template <class S>
S make_reflector(S* x, int64_t n) {
  if (n <= 0) return from_real<S>(0);
  const double rest = norm(x + 1, n - 1), re = real(x[0]), im = imag(x[0]);
  if (rest == 0 && im == 0) return from_real<S>(0);
  const double head = im == 0 ? std::fabs(re) : hypot(re, im);
  const double beta = re >= 0 && !std::signbit(re) ? -hypot(head, rest) : hypot(head, rest);
  const S tau = from_parts<S>((beta - re) / beta, -im / beta);
  const S divisor = x[0] - from_real<S>(beta);
  for (int64_t i = 1; i < n; ++i) x[i] = x[i] / divisor;
  x[0] = from_real<S>(beta);
  return tau;
}

// c := (I - tau v v') c, with v[0] = 1 wherever x[0] holds something else.
template <class S>
void apply_reflector(const S* v, S tau, const Mat<S>& c) {
  if (is_zero(tau)) return;
  for (int64_t j = 0; j < c.cols; ++j) {
    S* __restrict column = c.col(j);
    const S w = tau * (column[0] + dot(v + 1, column + 1, c.rows - 1));
    column[0] = column[0] - w;
    for (int64_t i = 1; i < c.rows; ++i) column[i] = column[i] - v[i] * w;
  }
}

// Work memory for blocks of reflectors of up to `rows` elements on matrices of up to `cols` columns.
template <class S>
struct BlockReflector {
  WorkMatrix<S> v, adjoint, t, w;
  BlockReflector(int64_t rows, int64_t cols)
      : v(rows, kReflectors), adjoint(kReflectors, rows), t(kReflectors, kReflectors), w(kReflectors, cols) {}
  bool ok() const { return v.ok() && adjoint.ok() && t.ok() && w.ok(); }

  // c := H1 ... Hk c, or its adjoint; the reflectors stand below the diagonal of `a`.
  void apply(const Mat<S>& a, const S* tau, const Mat<S>& c, bool adjoint_product) {
    const int64_t k = a.cols, n = a.rows;
    if (c.cols == 0 || k == 0) return;
    if (k == 1) return apply_reflector(a.p, adjoint_product ? conj(tau[0]) : tau[0], c);
    const Mat<S> vb = v.block(0, 0, n, k), vh = adjoint.block(0, 0, k, n), wb = w.block(0, 0, k, c.cols);
    for (int64_t j = 0; j < k; ++j) {
      for (int64_t i = 0; i < n; ++i) vb(i, j) = i < j ? from_real<S>(0) : i == j ? from_real<S>(1) : a(i, j);
    }
    assign_adjoint(vh, vb);
    for (int64_t j = 0; j < k; ++j) {  // column j of T
      t(j, j) = tau[j];
      for (int64_t i = 0; i < j; ++i) t(i, j) = -(tau[j] * dot(vb.col(i) + j, vb.col(j) + j, n - j));
      for (int64_t i = 0; i < j; ++i) {
        S sum = from_real<S>(0);
        for (int64_t r = i; r < j; ++r) sum += t(i, r) * t(r, j);
        t(i, j) = sum;
      }
    }
    clear(wb);
    add_product(wb, vh, c, 1.0);
    for (int64_t j = 0; j < c.cols; ++j) {  // w := T w or T' w
      S* x = wb.col(j);
      if (!adjoint_product) {
        for (int64_t i = 0; i < k; ++i) {
          S sum = from_real<S>(0);
          for (int64_t r = i; r < k; ++r) sum += t(i, r) * x[r];
          x[i] = sum;
        }
      } else {
        for (int64_t i = k; i-- > 0;) {
          S sum = from_real<S>(0);
          for (int64_t r = 0; r <= i; ++r) sum += conj(t(r, i)) * x[r];
          x[i] = sum;
        }
      }
    }
    add_product(c, vb, wb, -1.0);
  }
};

// a := R above, the reflectors below the diagonal; Q = H1 H2 ... False: no memory.
template <class S>
bool factor_qr(const Mat<S>& a, S* tau) {
  const int64_t steps = a.rows < a.cols ? a.rows : a.cols;
  BlockReflector<S> block(a.rows, a.cols);
  if (!block.ok()) return false;
  for (int64_t k0 = 0; k0 < steps; k0 += kReflectors) {
    const int64_t size = steps - k0 < kReflectors ? steps - k0 : kReflectors, next = k0 + size;
    for (int64_t k = k0; k < next; ++k) {
      tau[k] = make_reflector(a.col(k) + k, a.rows - k);
      apply_reflector(a.col(k) + k, conj(tau[k]), a.block(k, k + 1, a.rows - k, next - k - 1));
    }
    block.apply(a.block(k0, k0, a.rows - k0, size), tau + k0, a.block(k0, next, a.rows - k0, a.cols - next), true);
  }
  return true;
}

// c := Q c, or Q' c, for the Q = H1 ... Hk whose reflectors are the first k columns of `a`.
template <class S>
bool apply_q(const Mat<S>& a, const S* tau, int64_t k, const Mat<S>& c, bool adjoint) {
  BlockReflector<S> block(a.rows, c.cols);
  if (!block.ok()) return false;
  const int64_t blocks = (k + kReflectors - 1) / kReflectors;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t k0 = (adjoint ? i : blocks - 1 - i) * kReflectors, size = k - k0 < kReflectors ? k - k0 : kReflectors;
    block.apply(a.block(k0, k0, a.rows - k0, size), tau + k0, c.block(k0, 0, a.rows - k0, c.cols), adjoint);
  }
  return true;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg
