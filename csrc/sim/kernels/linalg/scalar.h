// SPDX-License-Identifier: BSD-3-Clause
//
// Arithmetic of complex numbers for the linear algebra kernels.
#pragma once

#include <cmath>

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Z = Complex<double>;

template <class S>
struct RealPart {
  using Type = S;
};
template <class T>
struct RealPart<Complex<T>> {
  using Type = T;
};
template <class S>
using RealOf = typename RealPart<S>::Type;

#define ATALLA_SCALAR [[gnu::always_inline]] inline

ATALLA_SCALAR Z operator+(Z a, Z b) { return {a.re + b.re, a.im + b.im}; }
ATALLA_SCALAR Z operator-(Z a, Z b) { return {a.re - b.re, a.im - b.im}; }
ATALLA_SCALAR Z operator*(Z a, Z b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
ATALLA_SCALAR Z operator*(Z a, double b) { return {a.re * b, a.im * b}; }

// R. L. Smith's division (Algorithm 116, CACM 1962): no overflow of the squared modulus.
inline Z operator/(Z a, Z b) {
  if (std::fabs(b.re) >= std::fabs(b.im)) {
    const double r = b.im / b.re, d = b.re + b.im * r;
    return {(a.re + a.im * r) / d, (a.im - a.re * r) / d};
  }
  const double r = b.re / b.im, d = b.re * r + b.im;
  return {(a.re * r + a.im) / d, (a.im * r - a.re) / d};
}

ATALLA_SCALAR double modulus(double a) { return std::fabs(a); }
inline double modulus(Z a) { return hypot(a.re, a.im); }
template <class S>
ATALLA_SCALAR RealOf<S> real(S a) {
  if constexpr (kIsComplex<S>) {
    return a.re;
  } else {
    return a;
  }
}
template <class S>
ATALLA_SCALAR bool is_zero(S a) {
  if constexpr (kIsComplex<S>) {
    return a.re == 0 && a.im == 0;
  } else {
    return a == 0;
  }
}
template <class S>
ATALLA_SCALAR S from_parts(RealOf<S> re, RealOf<S> im) {
  if constexpr (kIsComplex<S>) {
    return S{re, im};
  } else {
    return re;
  }
}
template <class S>
ATALLA_SCALAR S from_real(RealOf<S> re) {
  return from_parts<S>(re, 0);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
