// SPDX-License-Identifier: BSD-3-Clause
//
// Functions around the error function and the normal distribution.
#include "sim/kernels/special/special_math.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37 (1988): the normal quantile to 16 figures.
constexpr double kCentralP[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr double kCentralQ[] = {1.0,
                                4.2313330701600911252e+1,
                                6.8718700749205790830e+2,
                                5.3941960214247511077e+3,
                                2.1213794301586595867e+4,
                                3.9307895800092710610e+4,
                                2.8729085735721942674e+4,
                                5.2264952788528545610e+3};
constexpr double kMiddleP[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                               3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                               2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double kMiddleQ[] = {1.0,
                               2.05319162663775882187e0,
                               1.67638483018380384940e0,
                               6.89767334985100004550e-1,
                               1.48103976427480074590e-1,
                               1.51986665636164571966e-2,
                               5.47593808499534494600e-4,
                               1.05075007164441684324e-9};
constexpr double kTailP[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                             2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                             2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double kTailQ[] = {1.0,
                             5.99832206555887937690e-1,
                             1.36929880922735805310e-1,
                             1.48753612908506148525e-2,
                             7.86869131145613259100e-4,
                             1.84631831751005468180e-5,
                             1.42151175831644588870e-7,
                             2.04426310338993978564e-15};

// By Chebyshev interpolation in 40 digits, as Shepherd and Laframboise, Math. Comp. 36 (1981).
// (1 + 2 x) exp(x^2) erfc(x) for x >= 0, in t = (x - 3.75) / (x + 3.75)
constexpr double kErfcx[] = {
    1.1775789345674017,     -0.004590054580646478,  -0.08424913336651792,    0.05920993999819189,
    -0.026658668435305753,  0.009074997670705265,   -0.002413163540417608,   0.0004907758365258086,
    -6.916973302501207e-05, 4.13902798607301e-06,   7.74038306619849e-07,    -2.1886401049234397e-07,
    1.076499946567091e-08,  4.521959811218287e-09,  -7.754400208831351e-10,  -6.318088340886684e-11,
    2.86879501093067e-11,   1.9455868545777347e-13, -9.65469674843344e-13,   3.25254814814874e-14,
    3.3478119482868056e-14, -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
    5.068148904796111e-17,
};

// The quantile for the probability 1/2 + q, where `tail` is the smaller of it and its complement.
double normal_quantile(double q, double tail) {
  if (::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kCentralP, r) / polynomial(kCentralQ, r);
  }
  const double r = ::sqrt(-::log(tail));
  const double value = r <= 5 ? polynomial(kMiddleP, r - 1.6) / polynomial(kMiddleQ, r - 1.6)
                              : polynomial(kTailP, r - 5) / polynomial(kTailQ, r - 5);
  return ::copysign(value, q);
}

}  // namespace

double erfinv(double y) {
  const double magnitude = ::fabs(y);
  if (!(magnitude <= 1)) return kNaN;
  if (magnitude == 1) return ::copysign(kInfinity, y);
  return normal_quantile(0.5 * y, 0.5 * (1 - magnitude)) * M_SQRT1_2;
}

double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNaN;
  if (p == 0 || p == 1) return p == 0 ? -kInfinity : kInfinity;
  return normal_quantile(p - 0.5, p < 0.5 ? p : 1 - p);
}

double erfcx(double x) {
  if (x < 0) {
    const double square = x * x;
    const double e = 2 * ::exp(square);
    return x < -26.7 ? kInfinity : x < -6.1 ? e : e - erfcx(-x);
  }
  // The first term of the asymptotic series.
  if (x > 1e8) return M_2_SQRTPI * 0.5 / x;
  return chebyshev_series(kErfcx, (x - 3.75) / (x + 3.75)) / (1 + 2 * x);
}

double log_ndtr(double x) {
  const double t = x * M_SQRT1_2;
  if (x < -1) return ::log(erfcx(-t) / 2) - t * t;
  return ::log1p(-::erfc(t) / 2);
}

}  // namespace atalla::sim::ATALLA_ISA
