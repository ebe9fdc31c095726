// SPDX-License-Identifier: BSD-3-Clause
//
// The gamma function's logarithm and its derivatives, and Hurwitz' zeta function: recurrences up to an argument where
// the asymptotic series of DLMF 5.11, 5.15 and 25.11 (Euler and Maclaurin) have converged, reflection below.
#include "sim/kernels/special/special_math.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// B(2k) / 2k, k = 1 ... 7.
constexpr double kDigammaSeries[] = {1.0 / 12,  -1.0 / 120,       1.0 / 252, -1.0 / 240,
                                     1.0 / 132, -691.0 / 32760.0, 1.0 / 12};
// B(2k), k = 1 ... 7.
constexpr double kTrigammaSeries[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
// B(2k) / (2k)!, k = 1 ... 12.
constexpr double kZetaSeries[] = {1.0 / 12,
                                  -1.0 / 720,
                                  1.0 / 30240,
                                  -1.0 / 1209600,
                                  1.0 / 47900160,
                                  -691.0 / 1307674368000,
                                  1.0 / 74724249600,
                                  -3617.0 / 10670622842880000,
                                  43867.0 / 5109094217170944000,
                                  -174611.0 / 802857662698291200000.0,
                                  77683.0 / 14101100039391805440000.0,
                                  -236364091.0 / 1693824136731743669452800000.0};

// Sum of 1 / (x + k)^2 over k >= 0, for x >= 1/2.
double trigamma_right(double x) {
  double sum = 0;
  for (; x < 10; x += 1) sum += 1 / (x * x);
  const double z = 1 / (x * x);
  return sum + 1 / x + 0.5 * z + polynomial(kTrigammaSeries, z) * z / x;
}
// At a pole the sine is that of the rounded product, as upstream's: the value is large, not infinite.
template <class T>
double trigamma(T x) {
  if (!(x < T(0.5))) return trigamma_right(x);
  const double nearest = ::rint(static_cast<double>(x));
  const double rest = static_cast<double>(x) - nearest;
  const double sine = ::sin(rest == 0 ? static_cast<double>(static_cast<T>(M_PI) * x) : M_PI * rest);
  return M_PI * M_PI / (sine * sine) - trigamma_right(1 - static_cast<double>(x));
}

template <class T>
double polygamma_in(T n, T x) {
  if (n == 0) return digamma(static_cast<double>(x));
  if (n == 1) return trigamma(x);
  const double order = n;
  const double value = ::tgamma(order + 1) * zeta(order + 1, static_cast<double>(x));
  return ::fmod(order, 2) == 0 ? -value : value;
}

}  // namespace

double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

double digamma(double x) {
  if (x == 0) return -::copysign(kInfinity, x);
  double result = 0;
  if (x < 0) {
    const double rest = x - ::trunc(x);
    if (rest == 0 || !(x > -kInfinity)) return kNaN;
    result = -M_PI / ::tan(M_PI * rest);
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double z = 1 / (x * x);
  return result + (::log(x) - 0.5 / x - z * polynomial(kDigammaSeries, z));
}

float polygamma(float n, float x) { return static_cast<float>(polygamma_in(n, x)); }
double polygamma(double n, double x) { return polygamma_in(n, x); }

double zeta(double s, double q) {
  if (s == 1) return kInfinity;
  if (s < 1) return kNaN;
  if (q <= 0) {
    if (q == ::floor(q)) return kInfinity;
    if (s != ::floor(s)) return kNaN;
  }
  constexpr double kNegligible = 0x1p-53;
  double sum = ::pow(q, -s);
  double a = q, term = 0;
  for (int k = 0; k < 9 || a <= 9; ++k) {
    a += 1;
    term = ::pow(a, -s);
    sum += term;
    if (::fabs(term) < kNegligible * ::fabs(sum)) return sum;
  }
  sum += term * a / (s - 1) - 0.5 * term;
  double factor = s;  // s (s + 1) ... (s + 2k)
  term /= a;
  double order = s;
  for (const double c : kZetaSeries) {
    const double correction = factor * term * c;
    sum += correction;
    if (::fabs(correction) < kNegligible * ::fabs(sum)) break;
    factor *= (order + 1) * (order + 2);
    order += 2;
    term /= a * a;
  }
  return sum;
}

}  // namespace atalla::sim::ATALLA_ISA
