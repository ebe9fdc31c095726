// SPDX-License-Identifier: BSD-3-Clause
//
// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P: the power series of DLMF 8.11.4 for x < a,
// the continued fraction of DLMF 8.9.2 for x >= a, the series of DLMF 8.7.3 where both are small, and Temme's uniform
// expansion, DLMF 8.12, where a is large and x near it. The regions are upstream's.
#include "sim/kernels/special/special_math.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = 0x1p-53;
constexpr int kMaxTerms = 20000;

// c_k(eta) of DLMF 8.12.10 as power series in eta, for a >= 200 and |eta| <= 0.33; from its recurrence, in rationals.
constexpr double kTemme0[] = {
    -0.3333333333333333,    0.08333333333333333,    -0.014814814814814815,   0.0011574074074074073,
    0.0003527336860670194,  -0.0001787551440329218, 3.919263178522438e-05,   -2.185448510679992e-06,
    -1.85406221071516e-06,  8.296711340953087e-07,  -1.7665952736826078e-07, 6.707853543401498e-09,
    1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10,    -2.5514193994946248e-11};
constexpr double kTemme1[] = {-0.001851851851851852,   -0.003472222222222222,  0.0026455026455026454,
                              -0.0009902263374485596,  0.00020576131687242798, -4.018775720164609e-07,
                              -1.8098550334489977e-05, 7.64916091608111e-06,   -1.6120900894563446e-06,
                              4.647127802807434e-09,   1.378633446915721e-07,  -5.752545603517705e-08};
constexpr double kTemme2[] = {0.004133597883597883,    -0.0026813271604938273, 0.0007716049382716049,
                              2.0093878600823047e-06,  -0.0001073665322636516, 5.2923448829120125e-05,
                              -1.2760635188618728e-05, 3.423578734096138e-08,  1.3721957309062934e-06,
                              -6.298992138380055e-07};
constexpr double kTemme3[] = {0.0006494341563786008,  0.00022947209362139917, -0.0004691894943952557,
                              0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
                              1.1082654115347302e-05, -5.6749528269915965e-06};
constexpr double kTemme4[] = {-0.0008618882909167117,  0.0007840392217200666, -0.0002990724803031902,
                              -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05};
constexpr double kTemme5[] = {-0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392,
                              -0.00019932570516188847};

// The correction of Stirling's formula, DLMF 5.11.1: log gamma(a) less its leading terms, times a, in 1 / a^2.
constexpr double kStirling[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360., 1.0 / 156};

// log(1 + u) - u without cancellation, by the series of the area tangent.
double log1p_minus(double u) {
  if (::fabs(u) > 0.4) return ::log1p(u) - u;
  const double r = u / (2 + u);
  const double z = r * r;
  double power = 1, sum = 1.0 / 3;
  for (int k = 5; power > kEpsilon * sum && k < 60; k += 2) {
    power *= z;
    sum += power / k;
  }
  return 2 * r * z * sum - u * r;
}

// x^a exp(-x) / gamma(a).
double prefactor(double a, double x) {
  if (a < 10) return x > 800 ? 0 : ::pow(x, a) * ::exp(-x) / ::tgamma(a);
  const double stirling = polynomial(kStirling, 1 / (a * a)) / a;
  return ::sqrt(a / (2 * M_PI)) * ::exp(a * log1p_minus((x - a) / a) - stirling);
}

double lower_series(double a, double x) {
  const double front = prefactor(a, x);
  if (front == 0) return 0;
  double term = 1, sum = 1;
  for (int k = 1; k < kMaxTerms; ++k) {
    term *= x / (a + k);
    sum += term;
    if (term <= kEpsilon * sum) break;
  }
  return sum * front / a;
}

double upper_series(double a, double x) {
  double factor = 1, sum = 0;
  for (int k = 1; k < kMaxTerms; ++k) {
    factor *= -x / k;
    const double term = factor / (a + k);
    sum += term;
    if (::fabs(term) <= kEpsilon * ::fabs(sum)) break;
  }
  const double power = a * ::log(x);
  return -::expm1(power - lgamma(1 + a)) - ::exp(power - lgamma(a)) * sum;
}

// Evaluated by Lentz' method.
double upper_fraction(double a, double x) {
  const double front = prefactor(a, x);
  if (front == 0) return 0;
  constexpr double kTiny = 0x1p-1000;
  double b = x + 1 - a;
  double c = 1 / kTiny;
  double d = 1 / (b == 0 ? kTiny : b);
  double h = d;
  for (int k = 1; k < kMaxTerms; ++k) {
    const double numerator = -k * (k - a);
    b += 2;
    d = numerator * d + b;
    c = b + numerator / c;
    d = 1 / (d == 0 ? kTiny : d);
    c = c == 0 ? kTiny : c;
    h *= c * d;
    if (::fabs(c * d - 1) <= 2 * kEpsilon) break;
  }
  return h * front;
}

// sign 1: Q, -1: P.
double temme(double a, double x, double sign) {
  const double u = (x - a) / a;
  const double half_square = -log1p_minus(u);
  const double eta = ::copysign(::sqrt(2 * half_square), u);
  const double c[] = {polynomial(kTemme0, eta), polynomial(kTemme1, eta), polynomial(kTemme2, eta),
                      polynomial(kTemme3, eta), polynomial(kTemme4, eta), polynomial(kTemme5, eta)};
  const double rest = ::exp(-a * half_square) / ::sqrt(2 * M_PI * a) * polynomial(c, 1 / a);
  return 0.5 * ::erfc(sign * eta * ::sqrt(a / 2)) + sign * rest;
}
bool near_large(double a, double x) { return a > 200 && ::fabs(x - a) / a < 4.5 / ::sqrt(a); }

// Values of P at the edges of the domain, in upstream's order; false inside it.
bool at_edge(double a, double x, double* lower) {
  if (x < 0 || a < 0) {
    *lower = kNaN;
  } else if (a == 0) {
    *lower = x > 0 ? 1 : kNaN;
  } else if (x == 0) {
    *lower = 0;
  } else if (std::isinf(a)) {
    *lower = std::isinf(x) ? kNaN : 0;
  } else if (std::isinf(x)) {
    *lower = 1;
  } else if (a != a || x != x) {
    *lower = kNaN;
  } else {
    return false;
  }
  return true;
}

}  // namespace

double igammac(double a, double x) {
  double lower;
  if (at_edge(a, x, &lower)) return 1 - lower;
  if (near_large(a, x)) return temme(a, x, 1);
  if (x > 1.1) return x < a ? 1 - lower_series(a, x) : upper_fraction(a, x);
  const bool series = x <= 0.5 ? -0.4 / ::log(x) < a : x * 1.1 < a;
  return series ? 1 - lower_series(a, x) : upper_series(a, x);
}

double igamma(double a, double x) {
  double lower;
  if (at_edge(a, x, &lower)) return lower;
  if (near_large(a, x)) return temme(a, x, -1);
  return x > 1 && x > a ? 1 - igammac(a, x) : lower_series(a, x);
}

}  // namespace atalla::sim::ATALLA_ISA
