// SPDX-License-Identifier: BSD-3-Clause
//
// Arithmetic of the linear algebra kernels. Everything is computed in double or Complex<double>, whatever the operands
// are; results are rounded once.
#pragma once

#include <cmath>

#include "convert_types.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

using Z = Complex<double>;

#define ATALLA_SCALAR [[gnu::always_inline]] inline

ATALLA_SCALAR Z operator+(Z a, Z b) { return {a.re + b.re, a.im + b.im}; }
ATALLA_SCALAR Z operator-(Z a, Z b) { return {a.re - b.re, a.im - b.im}; }
ATALLA_SCALAR Z operator-(Z a) { return {-a.re, -a.im}; }
ATALLA_SCALAR Z operator*(Z a, Z b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
ATALLA_SCALAR Z operator*(double a, Z b) { return {a * b.re, a * b.im}; }
ATALLA_SCALAR Z operator*(Z a, double b) { return {a.re * b, a.im * b}; }
ATALLA_SCALAR Z operator/(Z a, double b) { return {a.re / b, a.im / b}; }
ATALLA_SCALAR Z& operator+=(Z& a, Z b) { return a = a + b; }
ATALLA_SCALAR Z& operator-=(Z& a, Z b) { return a = a - b; }
ATALLA_SCALAR Z& operator*=(Z& a, Z b) { return a = a * b; }
ATALLA_SCALAR Z& operator*=(Z& a, double b) { return a = a * b; }
ATALLA_SCALAR Z& operator/=(Z& a, double b) { return a = a / b; }

// R. L. Smith's division (Algorithm 116, CACM 1962): no overflow of the squared modulus.
inline Z operator/(Z a, Z b) {
  if (std::fabs(b.re) >= std::fabs(b.im)) {
    const double r = b.im / b.re, d = b.re + b.im * r;
    return {(a.re + a.im * r) / d, (a.im - a.re * r) / d};
  }
  const double r = b.re / b.im, d = b.re * r + b.im;
  return {(a.re * r + a.im) / d, (a.im * r - a.re) / d};
}
ATALLA_SCALAR bool operator==(Z a, Z b) { return a.re == b.re && a.im == b.im; }

ATALLA_SCALAR double conj(double a) { return a; }
ATALLA_SCALAR Z conj(Z a) { return {a.re, -a.im}; }
ATALLA_SCALAR double real(double a) { return a; }
ATALLA_SCALAR double real(Z a) { return a.re; }
ATALLA_SCALAR double imag(double) { return 0; }
ATALLA_SCALAR double imag(Z a) { return a.im; }
ATALLA_SCALAR double modulus(double a) { return std::fabs(a); }
inline double modulus(Z a) { return hypot(a.re, a.im); }
// |re| + |im|, by which LAPACK compares pivots.
ATALLA_SCALAR double modulus1(double a) { return std::fabs(a); }
ATALLA_SCALAR double modulus1(Z a) { return std::fabs(a.re) + std::fabs(a.im); }
ATALLA_SCALAR double squared(double a) { return a * a; }
ATALLA_SCALAR double squared(Z a) { return a.re * a.re + a.im * a.im; }
template <class S>
ATALLA_SCALAR bool is_zero(S a) {
  return real(a) == 0 && imag(a) == 0;
}

template <class S>
ATALLA_SCALAR S from_parts(double re, double im) {
  if constexpr (kIsComplex<S>) {
    return S{re, im};
  } else {
    return re;
  }
}
template <class S>
ATALLA_SCALAR S from_real(double re) {
  return from_parts<S>(re, 0);
}
ATALLA_SCALAR Z widen(double a) { return {a, 0}; }
ATALLA_SCALAR Z widen(Z a) { return a; }

constexpr double kEpsilon = 0x1p-52;
constexpr double kSafeMinimum = 0x1p-1022;

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg
