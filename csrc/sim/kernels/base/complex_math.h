// SPDX-License-Identifier: BSD-3-Clause
//
// Arithmetic of Complex<T> and the functions that formulas may call on it (docs/concepts/pointwise.md).
//
// Products are the textbook ones: an infinite factor may give NaN in a component, as in upstream and in numpy.
// Quotients are R. L. Smith's ("Algorithm 116: complex division", 1962), which do not overflow half-way. The
// transcendental functions are glibc's, with the special values of C's Annex G, one element at a time and out of line:
// a loop that calls one is dominated by it.
#pragma once

#include "sim/kernels/base/convert_types.h"

namespace atalla::sim::ATALLA_ISA {

// The type of a number's components: its own, if it is real.
template <class T>
struct RealOf {
  using Type = T;
};
template <class T>
struct RealOf<Complex<T>> {
  using Type = T;
};

#define ATALLA_COMPLEX \
  template <class T>   \
  [[gnu::always_inline]] inline

ATALLA_COMPLEX Complex<T> operator+(Complex<T> a, Complex<T> b) { return {a.re + b.re, a.im + b.im}; }
ATALLA_COMPLEX Complex<T> operator-(Complex<T> a, Complex<T> b) { return {a.re - b.re, a.im - b.im}; }
ATALLA_COMPLEX Complex<T> operator-(Complex<T> a) { return {-a.re, -a.im}; }
ATALLA_COMPLEX Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
ATALLA_COMPLEX bool operator==(Complex<T> a, Complex<T> b) { return (a.re == b.re) & (a.im == b.im); }
ATALLA_COMPLEX bool operator!=(Complex<T> a, Complex<T> b) { return (a.re != b.re) | (a.im != b.im); }

ATALLA_COMPLEX T magnitude_of(T x) {
  if constexpr (sizeof(T) == 4) return __builtin_fabsf(x);
  else return __builtin_fabs(x);
}

// Without branches.
ATALLA_COMPLEX Complex<T> operator/(Complex<T> a, Complex<T> b) {
  const T re = magnitude_of(b.re), im = magnitude_of(b.im);
  const bool by_re = re >= im;
  const T large = by_re ? b.re : b.im, small = by_re ? b.im : b.re;
  const T ratio = small / large, scale = T(1) / (large + small * ratio);
  const T first = by_re ? a.re : a.im, second = by_re ? a.im : a.re;
  const T difference = by_re ? second - first * ratio : first * ratio - second;
  const Complex<T> quotient = {(first + second * ratio) * scale, difference * scale};
  const bool by_zero = by_re & (re == T(0));  // gives infinities and NaNs
  return {by_zero ? a.re / re : quotient.re, by_zero ? a.im / im : quotient.im};
}

ATALLA_COMPLEX bool isnan(Complex<T> x) { return (x.re != x.re) | (x.im != x.im); }
ATALLA_COMPLEX Complex<T> conj(Complex<T> x) { return {x.re, -x.im}; }
ATALLA_COMPLEX Complex<T> reciprocal(Complex<T> x) { return Complex<T>{1, 0} / x; }
ATALLA_COMPLEX Complex<T> sigmoid(Complex<T> x) { return reciprocal(Complex<T>{1, 0} + exp(Complex<T>{0, 0} - x)); }
// Exact at both ends, as the real one.
ATALLA_COMPLEX Complex<T> lerp(Complex<T> start, Complex<T> end, Complex<T> weight) {
  const Complex<T> difference = end - start;
  const Complex<T> from_start = start + weight * difference;
  const Complex<T> from_end = end - difference * (Complex<T>{1, 0} - weight);
  return weight.re * weight.re + weight.im * weight.im < T(0.25) ? from_start : from_end;
}

#undef ATALLA_COMPLEX

// clang-format off
#define ATALLA_FORALL_COMPLEX_UNARY(X)                             \
  X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(cos)        \
  X(cosh) X(exp) X(log) X(sin) X(sinh) X(sqrt) X(tan) X(tanh)      \
  X(exp2) X(expm1) X(log10) X(log1p) X(log2) X(sgn) X(sinc)
// clang-format on
#define ATALLA_DECLARE(name)             \
  Complex<float> name(Complex<float> x); \
  Complex<double> name(Complex<double> x);
ATALLA_FORALL_COMPLEX_UNARY(ATALLA_DECLARE)
#undef ATALLA_DECLARE

float abs(Complex<float> x);  // the modulus
double abs(Complex<double> x);
float angle(Complex<float> x);  // in [-pi, pi]
double angle(Complex<double> x);
Complex<float> pow(Complex<float> base, Complex<float> exponent);
Complex<double> pow(Complex<double> base, Complex<double> exponent);
// log(exp(a) + exp(b)).
Complex<float> logaddexp(Complex<float> a, Complex<float> b);
Complex<double> logaddexp(Complex<double> a, Complex<double> b);

}  // namespace atalla::sim::ATALLA_ISA
