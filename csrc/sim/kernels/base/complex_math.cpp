// SPDX-License-Identifier: BSD-3-Clause
#include "sim/kernels/base/complex_math.h"

#include <math.h>

#include <limits>

namespace atalla::sim::ATALLA_ISA {
namespace {

// C's complex numbers, which GCC has in C++ as an extension: the arguments of glibc's functions.
template <class T>
struct Native;
template <>
struct Native<float> {
  using Type = __complex__ float;
};
template <>
struct Native<double> {
  using Type = __complex__ double;
};

template <class T>
typename Native<T>::Type to_c(Complex<T> x) {
  typename Native<T>::Type z;
  __real__ z = x.re;
  __imag__ z = x.im;
  return z;
}
template <class Z>
auto from_c(Z z) {
  using T = std::remove_reference_t<decltype(__real__ z)>;
  return Complex<T>{__real__ z, __imag__ z};
}

// (Not std::sin and its kin, which are inline functions: see kernel.h.)
#define ATALLA_REAL(name)                             \
  float real_##name(float x) { return ::name##f(x); } \
  double real_##name(double x) { return ::name(x); }
ATALLA_REAL(sin)
ATALLA_REAL(cos)
ATALLA_REAL(exp)
ATALLA_REAL(expm1)

template <class T>
Complex<T> divided(Complex<T> x, T divisor) {
  return {x.re / divisor, x.im / divisor};
}

template <class T>
Complex<T> expm1_of(Complex<T> z) {
  // e^x cos y - 1 = (e^x - 1) cos y - 2 sin^2(y / 2) keeps the digits of a small z.
  const T half = real_sin(z.im / 2);
  return {real_expm1(z.re) * real_cos(z.im) - 2 * half * half, real_exp(z.re) * real_sin(z.im)};
}

// W. Kahan's correction: log(u) for u = 1 + z as rounded, times z / (u - 1).
template <class T>
Complex<T> log1p_of(Complex<T> z) {
  const Complex<T> u = {z.re + 1, z.im}, rounded = {u.re - 1, u.im};  // the sign of a zero part is kept
  if (u == Complex<T>{1, 0}) return z;
  return rounded == z ? log(u) : log(u) * (z / rounded);
}

template <class T>
Complex<T> sgn_of(Complex<T> z) {
  const T modulus = abs(z);
  return modulus == 0 ? Complex<T>{0, 0} : divided(z, modulus);
}

template <class T>
Complex<T> sinc_of(Complex<T> z) {
  if (z == Complex<T>{0, 0}) return {1, 0};
  const Complex<T> x = Complex<T>{static_cast<T>(M_PI), 0} * z;
  return sin(x) / x;
}

// From the argument with the larger real part; its exponential is the larger in modulus.
template <class T>
Complex<T> logaddexp_of(Complex<T> a, Complex<T> b) {
  if (isnan(a) || isnan(b)) {
    constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
    return {kNan, kNan};
  }
  const bool in_order = a.re < b.re;
  const Complex<T> smaller = in_order ? a : b, larger = in_order ? b : a;
  if (smaller.re == larger.re && magnitude_of(smaller.re) == std::numeric_limits<T>::infinity()) {
    return smaller.re < 0 ? smaller : log(exp(smaller) + exp(larger));
  }
  return log1p(exp(smaller - larger)) + larger;
}

}  // namespace

#define ATALLA_BY_LIBRARY(name)                                                           \
  Complex<float> name(Complex<float> x) { return from_c(__builtin_c##name##f(to_c(x))); } \
  Complex<double> name(Complex<double> x) { return from_c(__builtin_c##name(to_c(x))); }
ATALLA_BY_LIBRARY(acos)
ATALLA_BY_LIBRARY(acosh)
ATALLA_BY_LIBRARY(asin)
ATALLA_BY_LIBRARY(asinh)
ATALLA_BY_LIBRARY(atan)
ATALLA_BY_LIBRARY(atanh)
ATALLA_BY_LIBRARY(cos)
ATALLA_BY_LIBRARY(cosh)
ATALLA_BY_LIBRARY(exp)
ATALLA_BY_LIBRARY(log)
ATALLA_BY_LIBRARY(sin)
ATALLA_BY_LIBRARY(sinh)
ATALLA_BY_LIBRARY(sqrt)
ATALLA_BY_LIBRARY(tan)
ATALLA_BY_LIBRARY(tanh)

#define ATALLA_BY(name, expression)         \
  Complex<float> name(Complex<float> x) {   \
    using T = float;                        \
    return expression;                      \
  }                                         \
  Complex<double> name(Complex<double> x) { \
    using T = double;                       \
    return expression;                      \
  }
ATALLA_BY(exp2, exp(Complex<T>{x.re * static_cast<T>(M_LN2), x.im * static_cast<T>(M_LN2)}))
ATALLA_BY(log2, divided(log(x), static_cast<T>(M_LN2)))
ATALLA_BY(log10, divided(log(x), static_cast<T>(M_LN10)))
#undef ATALLA_BY

#define ATALLA_BY_TEMPLATE(name)                                 \
  Complex<float> name(Complex<float> x) { return name##_of(x); } \
  Complex<double> name(Complex<double> x) { return name##_of(x); }
ATALLA_BY_TEMPLATE(expm1)
ATALLA_BY_TEMPLATE(log1p)
ATALLA_BY_TEMPLATE(sgn)
ATALLA_BY_TEMPLATE(sinc)

float abs(Complex<float> x) { return ::hypotf(x.re, x.im); }
double abs(Complex<double> x) { return ::hypot(x.re, x.im); }
float angle(Complex<float> x) { return ::atan2f(x.im, x.re); }
double angle(Complex<double> x) { return ::atan2(x.im, x.re); }

Complex<float> pow(Complex<float> base, Complex<float> exponent) {
  return from_c(__builtin_cpowf(to_c(base), to_c(exponent)));
}
Complex<double> pow(Complex<double> base, Complex<double> exponent) {
  return from_c(__builtin_cpow(to_c(base), to_c(exponent)));
}

Complex<float> logaddexp(Complex<float> a, Complex<float> b) { return logaddexp_of(a, b); }
Complex<double> logaddexp(Complex<double> a, Complex<double> b) { return logaddexp_of(a, b); }

}  // namespace atalla::sim::ATALLA_ISA
