// SPDX-License-Identifier: BSD-3-Clause
//
// Derivatives of Gamma and Dirichlet samples by their parameters, holding the distribution function's value constant:
// -(dF/dparameter) / pdf. Regions, series and fitted coefficients are those of PyTorch's reparameterized gradients
// (ATen/native/Distributions.h), so that results agree with the CPU's: the fits have about four digits.
#include "sim/kernels/special/special_math.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

double finite_or_zero(double value) { return value != value ? 0 : value; }
double square(double x) { return x * x; }

// Leading terms of Stirling's series for gamma(x).
double stirling_factor(double x) { return 1 + 1 / (12 * x) + 1 / (288 * x * x); }

// x < 0.8: the power series of the distribution function and its derivative, five terms beyond the first.
double gamma_series(double alpha, double x) {
  double coefficient = 1, sum = 0, derivative = 0;
  for (int k = 0; k <= 5; ++k) {
    if (k > 0) coefficient *= -x / k;
    const double order = alpha + k;
    sum += coefficient / order;
    derivative += coefficient / (order * order);
  }
  const double power = ::pow(x, alpha);
  const double cdf_by_alpha = (::log(x) - digamma(alpha)) * power * sum - power * derivative;
  return finite_or_zero(-cdf_by_alpha / (::pow(x, alpha - 1) * ::exp(-x)));
}

// alpha > 8: Rice's saddle point expansion, and its Taylor expansion near x = alpha, where it is singular.
double gamma_saddle_point(double alpha, double x) {
  if (0.9f * alpha <= x && x <= 1.1f * alpha) {
    const double first = 1 + 24 * alpha * (1 + 12 * alpha);
    const double second = 1440 * square(alpha) + 6 * x * (53 - 120 * x) - 65 * x * x / alpha + alpha * (107 + 3600 * x);
    return first * second / (1244160 * square(alpha) * square(alpha));
  }
  const double ratio = ::log(x / alpha), root = ::sqrt(8 * alpha);
  const double tail = ::pow(x - alpha - alpha * ratio, -1.5);
  const double sides = root / (alpha - x) + (x < alpha ? -tail : tail);
  const double slope = ratio * sides - ::sqrt(2 / alpha) * (alpha + x) / square(alpha - x);
  const double stirling = 1 + 1 / (12 * alpha) * (1 + 1 / (24 * alpha));
  return -stirling * x * slope / root;
}

// exp of a quotient of polynomials in u = log(x / alpha), by columns 1, u, u^2, and v = log(alpha).
constexpr double kGammaNumerator[4][3] = {{0.16009398, 0.53487893, 0.040121004},
                                          {-0.094634809, 0.1298071, -0.0065914022},
                                          {0.025146376, 0.065735949, -0.0026286047},
                                          {-0.0030648343, -0.0015649758, -0.0013441777}};
constexpr double kGammaDenominator[4][3] = {{1, 0.16639465, 0.017050642},
                                            {0.32668115, 0.020070113, -0.0021309326},
                                            {0.10406089, -0.0035938915, 0.00085092367},
                                            {0.0014179084, -0.00058392623, -1.5247877e-07}};
double in_two(const double (&c)[4][3], double u, double v) {
  const double rows[] = {polynomial(c[0], u), polynomial(c[1], u), polynomial(c[2], u), polynomial(c[3], u)};
  return polynomial(rows, v);
}

// x near 0: the binomial series of the beta distribution function, by alpha and by beta.
double beta_by_alpha_near_zero(double x, double alpha, double beta) {
  const double factor = digamma(alpha) - digamma(alpha + beta) - ::log(x);
  double coefficient = 1, sum = 0;
  for (int k = 0; k <= 10; ++k) {
    if (k > 0) coefficient *= (k - beta) * x / k;
    const double order = alpha + k;
    sum += coefficient / order * (factor + 1 / order);
  }
  return finite_or_zero(x * ::pow(1 - x, -beta) * sum);
}
double beta_by_beta_near_zero(double x, double alpha, double beta) {
  const double factor = digamma(alpha + beta) - digamma(beta);
  double coefficient = 1, falling = 1, derivative = 0, sum = factor / alpha;
  for (int k = 1; k <= 8; ++k) {
    coefficient *= -x / k;
    derivative = derivative * (beta - k) + falling;
    falling *= beta - k;
    sum += coefficient / (alpha + k) * (derivative + factor * falling);
  }
  return finite_or_zero(-::pow(1 - x, 1 - beta) * sum);
}

// Both parameters above 6: the saddle point expansion, and its Taylor expansion near the mean.
double beta_saddle_point(double x, double alpha, double beta) {
  const double total = alpha + beta, mean = alpha / total;
  const double deviation = ::sqrt(alpha * beta / (total + 1)) / total;
  if (::fabs(x - mean) <= 0.1 * deviation) {
    const double beta2 = beta * beta, y = 1 - x;
    const double by_alpha[] = {47 * x * beta2 * beta2, (43 + 20 * (16 + 27 * beta) * x) * beta2 * beta,
                               3 * (59 + 180 * beta - 90 * x) * beta2, (453 + 1620 * beta * y - 455 * x) * beta,
                               8 * y * (135 * beta - 11)};
    const double scale = (1 + 12 * alpha) * (1 + 12 * beta) / square(total);
    return scale / y * polynomial(by_alpha, alpha) / (12960 * alpha * square(alpha) * beta2 * (1 + 12 * total));
  }
  const double stirling = stirling_factor(alpha) * stirling_factor(beta) / stirling_factor(total);
  const double offset = alpha * (x - 1) + beta * x;
  const double slope = (2 * square(alpha) * (x - 1) + alpha * beta * (x - 1) - x * square(beta)) /
                       (::sqrt(2 * alpha / beta) * ::pow(total, 1.5) * square(offset));
  const double exponent = beta * ::log(beta / (total * (1 - x))) + alpha * ::log(alpha / (total * x));
  const double tail = ::pow(exponent, -1.5);
  const double sides = ::sqrt(8 * alpha * beta / total) / offset + (x < mean ? tail : -tail);
  const double bracket = slope + 0.5 * ::log(alpha / (total * x)) * sides;
  return stirling * -x / ::sqrt(2 * alpha * beta / total) * bracket;
}

// A correction of an analytic approximation: a quotient of polynomials in u = log x, a = log(alpha / x) and
// b = log(total) - a; [power of u][power of a][power of b].
constexpr double kBetaNumerator[3][3][4] = {{{1.003668233, -0.01061107488, -0.0657888334, 0.01201642863},
                                             {0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033},
                                             {-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013}},
                                            {{0.221950385, -0.3187676331, 0.01799915743, 0.01074823814},
                                             {-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057},
                                             {0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05}},
                                            {{-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565},
                                             {0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181},
                                             {0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05}}};
constexpr double kBetaDenominator[3][3][4] = {{{1, -0.02924021934, -0.04438342661, 0.007285809825},
                                               {0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521},
                                               {-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149}},
                                              {{0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273},
                                               {0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956},
                                               {-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05}},
                                              {{0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05},
                                               {0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05},
                                               {-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06}}};
double in_three(const double (&c)[3][3][4], double u, double a, double b) {
  double by_u[3];
  for (int i = 0; i < 3; ++i) {
    const double by_a[] = {polynomial(c[i][0], b), polynomial(c[i][1], b), polynomial(c[i][2], b)};
    by_u[i] = polynomial(by_a, a);
  }
  return polynomial(by_u, u);
}

}  // namespace

double gamma_sample_gradient(double alpha, double x) {
  if (x < 0.8f) return gamma_series(alpha, x);
  if (alpha > 8) return gamma_saddle_point(alpha, x);
  const double u = ::log(x / alpha), v = ::log(alpha);
  return ::exp(in_two(kGammaNumerator, u, v) / in_two(kGammaDenominator, u, v));
}

double dirichlet_sample_gradient(double x, double alpha, double total) {
  const double beta = total - alpha, boundary = total * x * (1 - x);
  if (x <= 0.5 && boundary < 2.5) return beta_by_alpha_near_zero(x, alpha, beta);
  if (x >= 0.5 && boundary < 0.75) return -beta_by_beta_near_zero(1 - x, beta, alpha);
  if (alpha > 6 && beta > 6) return beta_saddle_point(x, alpha, beta);
  const double u = ::log(x), a = ::log(alpha) - u, b = ::log(total) - a;
  const double approximation = x * (digamma(total) - digamma(alpha)) / beta;
  return in_three(kBetaNumerator, u, a, b) / in_three(kBetaDenominator, u, a, b) * approximation;
}

}  // namespace atalla::sim::ATALLA_ISA
