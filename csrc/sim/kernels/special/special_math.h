// SPDX-License-Identifier: BSD-3-Clause
//
// Special functions that formulas of pointwise ops may call. They are scalar functions, compiled once an instruction
// set (special_*.cpp) and computed in double; float goes through double, so that its results are rounded once (up to an
// error of a fraction of an ulp). Bounds for double are in docs/concepts/pointwise.md. Arguments outside a function's
// domain, poles and infinities give what upstream gives.
#pragma once

#include "sim/kernels/base/vec_math.h"

namespace atalla::sim::ATALLA_ISA {

// clang-format off
#define ATALLA_FORALL_SPECIAL_UNARY(X)                                                                         \
  X(digamma) X(erfinv) X(erfcx) X(ndtri) X(log_ndtr)                                                 \
  X(i0) X(i0e) X(i1) X(i1e) X(k0) X(k0e) X(k1) X(k1e) X(bessel_j0) X(bessel_j1) X(bessel_y0) X(bessel_y1)      \
  X(spherical_bessel_j0) X(airy_ai)
#define ATALLA_FORALL_SPECIAL_BINARY(X) X(zeta) X(igamma) X(igammac) X(gamma_sample_gradient)
#define ATALLA_FORALL_POLYNOMIALS(X)                                                                           \
  X(chebyshev_polynomial_t) X(chebyshev_polynomial_u) X(chebyshev_polynomial_v) X(chebyshev_polynomial_w)      \
  X(shifted_chebyshev_polynomial_t) X(shifted_chebyshev_polynomial_u) X(shifted_chebyshev_polynomial_v)        \
  X(shifted_chebyshev_polynomial_w) X(hermite_polynomial_h) X(hermite_polynomial_he)                           \
  X(laguerre_polynomial_l) X(legendre_polynomial_p)
// clang-format on

#define ATALLA_DECLARE_SPECIAL(name) \
  double name(double x);             \
  ATALLA_INLINE float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }
ATALLA_FORALL_SPECIAL_UNARY(ATALLA_DECLARE_SPECIAL)
#undef ATALLA_DECLARE_SPECIAL

#define ATALLA_DECLARE_SPECIAL(name)                                                 \
  double name(double x, double y);                                                   \
  ATALLA_INLINE float name(float x, float y) {                                       \
    return static_cast<float>(name(static_cast<double>(x), static_cast<double>(y))); \
  }
ATALLA_FORALL_SPECIAL_BINARY(ATALLA_DECLARE_SPECIAL)
#undef ATALLA_DECLARE_SPECIAL

// Of degree n, truncated to an integer. The recurrences overflow where those in the dtype itself do.
#define ATALLA_DECLARE_SPECIAL(name) \
  float name(float x, float n);      \
  double name(double x, double n);
ATALLA_FORALL_POLYNOMIALS(ATALLA_DECLARE_SPECIAL)
#undef ATALLA_DECLARE_SPECIAL

// Of x in a sample of a Dirichlet distribution, by its parameter alpha; total: the sum of all parameters.
double dirichlet_sample_gradient(double x, double alpha, double total);
ATALLA_INLINE float dirichlet_sample_gradient(float x, float alpha, float total) {
  return static_cast<float>(
      dirichlet_sample_gradient(static_cast<double>(x), static_cast<double>(alpha), static_cast<double>(total)));
}

// Derivative n of digamma.
float polygamma(float n, float x);
double polygamma(double n, double x);

// log |Gamma(x)|. In float without a branch, so that loops over it are vectorised: Stirling's series from 8 on
// (Abramowitz and Stegun 6.1.41), shifted there by the recurrence below, reflected below 0. Computed in double and
// rounded once: at most 1 ulp from the float nearest to the double result (test_log_gamma_of_floats).
double lgamma(double x);
ATALLA_INLINE double lgamma_of_positive(double x) {
  const double product = x * (x + 1) * ((x + 2) * (x + 3)) * ((x + 4) * (x + 5)) * ((x + 6) * (x + 7));
  const double y = x < 8 ? x + 8 : x;
  const double w = 1 / y, z = w * w;
  double series = -691.0 / 360360;
  series = series * z + 1.0 / 1188;
  series = series * z - 1.0 / 1680;
  series = series * z + 1.0 / 1260;
  series = series * z - 1.0 / 360;
  series = series * z + 1.0 / 12;
  const double stirling = (y - 0.5) * (log(y) - 1) + (0.41893853320467274178 + series * w);
  return stirling - log(x < 8 ? product : 1.0);
}
ATALLA_INLINE float lgamma(float value) {
  const double x = value;
  const double right = lgamma_of_positive(x < 0 ? 1 - x : x);
  const double reflected = log(M_PI / abs(sin(M_PI * (x - round(x))))) - right;
  const double result = x < 0 ? reflected : right;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return static_cast<float>((x == 1) | (x == 2) ? 0.0 : x == -kInfinity ? kInfinity : result);
}

// sum c[k] T_k(t) by Clenshaw's recurrence.
template <size_t N>
inline double chebyshev_series(const double (&c)[N], double t) {
  double b0 = 0, b1 = 0;
  for (size_t k = N - 1; k > 0; --k) {
    const double b2 = b1;
    b1 = b0;
    b0 = 2 * t * b1 - b2 + c[k];
  }
  return t * b0 - b1 + c[0];
}
// sum c[k] x^k by Horner's rule.
template <size_t N>
inline double polynomial(const double (&c)[N], double x) {
  double y = c[N - 1];
  for (size_t k = N - 1; k > 0; --k) y = y * x + c[k - 1];
  return y;
}

}  // namespace atalla::sim::ATALLA_ISA
