// SPDX-License-Identifier: BSD-3-Clause
//
// The matrix exponential by scaling and squaring with Pade approximants of degrees 3, 5, 7 and 13; degrees, bounds and
// coefficients are those of N. Higham, The scaling and squaring method for the matrix exponential revisited, 2005.
#pragma once

#include "sim/kernels/linalg/matrix.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr double kPade3[14] = {120, 60, 12, 1};
constexpr double kPade5[14] = {30240, 15120, 3360, 420, 30, 1};
constexpr double kPade7[14] = {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1};
constexpr double kPade13[14] = {64764752532480000,
                                32382376266240000,
                                7771770303897600,
                                1187353796428800,
                                129060195264000,
                                10559470521600,
                                670442572800,
                                33522128640,
                                1323241920,
                                40840800,
                                960960,
                                16380,
                                182,
                                1};

// sum += f[i] * terms[i]
template <class S>
void add_terms(const Mat<S>& sum, const double* f, const Mat<S>* const* terms, int count) {
  for (int64_t j = 0; j < sum.cols; ++j) {
    S* __restrict out = sum.col(j);
    for (int k = 0; k < count; ++k) {
      if (f[k] == 0) continue;
      const S* __restrict x = terms[k]->col(j);
      for (int64_t i = 0; i < sum.rows; ++i) out[i] = out[i] + x[i] * f[k];
    }
  }
}

// c = a * b
template <class S>
void set_product(const Mat<S>& c, const Mat<S>& a, const Mat<S>& b) {
  const int64_t n = c.rows;
  call<S>(Routine::kGemm, 'N', 'N', n, n, n, from_real<S>(1), a.p, a.ld, b.p, b.ld, from_real<S>(0), c.p, c.ld);
}

// a is overwritten; out := exp(a). False: no memory.
template <class S>
bool exponentiate(const Mat<S>& a, const Mat<S>& out) {
  const int64_t n = a.rows;
  double size = 0;  // the 1-norm
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += modulus(a(i, j));
    if (sum > size || sum != sum) size = sum;
  }
  if (!(size < INFINITY)) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < n; ++i) out(i, j) = from_parts<S>(NAN, NAN);
    }
    return true;
  }
  const double* b = kPade13;
  int squarings = 0;
  if (size <= 1.495585217958292e-2) b = kPade3;
  else if (size <= 2.539398330063230e-1) b = kPade5;
  else if (size <= 9.504178996162932e-1) b = kPade7;
  else if (size > 5.371920351148152) squarings = static_cast<int>(std::ceil(std::log2(size / 5.371920351148152)));
  const double scale = std::exp2(-squarings);
  for (int64_t j = 0; squarings > 0 && j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) a(i, j) = a(i, j) * scale;
  }
  WorkMatrix<S> one(n, n), a2(n, n), a4(n, n), a6(n, n), u(n, n), v(n, n), w(n, n);
  ScratchArray<Int> pivots(n);
  if (!one || !a2 || !a4 || !a6 || !u || !v || !w || !pivots) return false;
  set_identity<S>(one);
  set_product<S>(a2, a, a);
  clear<S>(a4);
  clear<S>(a6);
  if (b != kPade3) set_product<S>(a4, a2, a2);
  if (b != kPade3 && b != kPade5) set_product<S>(a6, a4, a2);
  const Mat<S>* const powers[] = {&one, &a2, &a4, &a6};
  // Of the odd terms, divided by a, and of the even ones: a6 (high part) + low part.
  const auto polynomial = [&](int first, const Mat<S>& result) {
    const double low[] = {b[first], b[first + 2], b[first + 4], b[first + 6]};
    const double high[] = {0, first + 8 < 14 ? b[first + 8] : 0, first + 10 < 14 ? b[first + 10] : 0,
                           first + 12 < 14 ? b[first + 12] : 0};
    clear(result);
    if (b == kPade13) {
      clear<S>(w);
      add_terms<S>(w, high, powers, 4);
      set_product<S>(result, a6, w);
    }
    add_terms<S>(result, low, powers, 4);
  };
  polynomial(1, v);
  set_product<S>(u, a, v);
  polynomial(0, v);
  for (int64_t j = 0; j < n; ++j) {  // (v - u) out = v + u
    for (int64_t i = 0; i < n; ++i) {
      out(i, j) = v(i, j) + u(i, j);
      w(i, j) = v(i, j) - u(i, j);
    }
  }
  Int info = 0;
  call<S>(Routine::kGetrf, n, n, w.p, w.ld, pivots.get(), &info);
  call<S>(Routine::kGetrs, 'N', n, n, w.p, w.ld, pivots.get(), out.p, out.ld, &info);
  for (; squarings > 0; --squarings) {
    set_product<S>(u, out, out);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < n; ++i) out(i, j) = u(i, j);
    }
  }
  return true;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
