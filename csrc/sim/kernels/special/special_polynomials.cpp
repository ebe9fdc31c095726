// SPDX-License-Identifier: BSD-3-Clause
//
// Orthogonal polynomials by their three-term recurrences (DLMF 18.9), Chebyshev polynomials of higher degree inside
// (-1, 1) by DLMF 18.5.1 to 18.5.4. Computed in double; for float, a recurrence overflows where one in float would, so
// that results agree with upstream's there too. T is the dtype.
#include "sim/kernels/special/special_math.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

template <class T>
double bounded(double x) {
  const bool outside = ::fabs(x) > static_cast<double>(std::numeric_limits<T>::max());
  return outside ? ::copysign(std::numeric_limits<double>::infinity(), x) : x;
}

// Degrees that are no 64-bit integers count as negative, for which upstream gives 0.
int64_t degree(double n) { return n >= -0x1p63 && n < 0x1p63 ? static_cast<int64_t>(n) : -1; }
bool even(int64_t n) { return n % 2 == 0; }

// p_n from p_0 = 1, p_1 = `first` and p_(k+1) = step(k, p_k, p_(k-1)); ends at the first NaN.
template <class T, class Step>
double recurrence(int64_t n, double first, Step&& step) {
  if (n == 0) return 1;
  double before = 1, last = bounded<T>(first);
  for (int64_t k = 1; k < n && last == last; ++k) {
    const double next = bounded<T>(step(static_cast<double>(k), last, before));
    before = last;
    last = next;
  }
  return last;
}

enum class Kind { kT, kU, kV, kW };

// x in the polynomials' own interval [-1, 1]; `limit`: the last degree for which the recurrence serves inside it.
template <class T>
double chebyshev(Kind kind, double x, double degrees, int64_t limit) {
  const int64_t n = degree(degrees);
  if (n < 0) return 0;
  const double m = static_cast<double>(n);
  const double odd_sign = even(n) ? 1 : -1;
  if (x == 1) return kind == Kind::kU ? m + 1 : kind == Kind::kW ? m + m + 1 : 1;
  if (x == -1) return odd_sign * (kind == Kind::kU ? m + 1 : kind == Kind::kV ? m + m + 1 : 1);
  if (n > limit && ::fabs(x) < 1) {
    const double angle = ::acos(x);
    switch (kind) {
      case Kind::kT:
        return ::cos(m * angle);
      case Kind::kU:
        return ::sin((m + 1) * angle) / ::sin(angle);
      case Kind::kV:
        return ::cos((m + 0.5) * angle) / ::cos(0.5 * angle);
      default:
        return ::sin((m + 0.5) * angle) / ::sin(0.5 * angle);
    }
  }
  const double twice = x + x;
  const double first = kind == Kind::kT ? x : kind == Kind::kU ? twice : kind == Kind::kV ? twice - 1 : twice + 1;
  return recurrence<T>(n, first, [twice](double, double last, double before) { return twice * last - before; });
}
double shifted(double x) { return x + x - 1; }

// Upstream gives no values beyond these degrees.
template <class T>
constexpr int64_t kHermiteLimit = std::is_same_v<T, float> ? 128 : 512;

template <class T>
double hermite(double x, double degrees, double scale) {
  const int64_t n = degree(degrees);
  if (n < 0) return 0;
  if (n > kHermiteLimit<T>) return std::numeric_limits<double>::quiet_NaN();
  const double y = scale * x;
  return recurrence<T>(n, y, [=](double k, double last, double before) { return y * last - scale * k * before; });
}
template <class T>
double laguerre(double x, double degrees) {
  const int64_t n = degree(degrees);
  if (n < 0) return 0;
  if (x == 0) return 1;
  return recurrence<T>(n, 1 - x, [x](double k, double last, double before) {
    return ((k + k + (1 - x)) * last - k * before) / (k + 1);
  });
}
template <class T>
double legendre(double x, double degrees) {
  const int64_t n = degree(degrees);
  if (n < 0) return 0;
  if (::fabs(x) == 1) return x > 0 || even(n) ? 1 : -1;
  return recurrence<T>(
      n, x, [x](double k, double last, double before) { return ((k + k + 1) * x * last - k * before) / (k + 1); });
}

}  // namespace

#define ATALLA_DEFINE_POLYNOMIAL(name, function, ...)                                       \
  float name(float x, float n) { return static_cast<float>(function<float>(__VA_ARGS__)); } \
  double name(double x, double n) { return function<double>(__VA_ARGS__); }
ATALLA_DEFINE_POLYNOMIAL(chebyshev_polynomial_t, chebyshev, Kind::kT, x, n, 6)
ATALLA_DEFINE_POLYNOMIAL(chebyshev_polynomial_u, chebyshev, Kind::kU, x, n, 8)
ATALLA_DEFINE_POLYNOMIAL(chebyshev_polynomial_v, chebyshev, Kind::kV, x, n, 8)
ATALLA_DEFINE_POLYNOMIAL(chebyshev_polynomial_w, chebyshev, Kind::kW, x, n, 8)
ATALLA_DEFINE_POLYNOMIAL(shifted_chebyshev_polynomial_t, chebyshev, Kind::kT, shifted(x), n, 6)
ATALLA_DEFINE_POLYNOMIAL(shifted_chebyshev_polynomial_u, chebyshev, Kind::kU, shifted(x), n, 6)
ATALLA_DEFINE_POLYNOMIAL(shifted_chebyshev_polynomial_v, chebyshev, Kind::kV, shifted(x), n, 6)
ATALLA_DEFINE_POLYNOMIAL(shifted_chebyshev_polynomial_w, chebyshev, Kind::kW, shifted(x), n, 4)
ATALLA_DEFINE_POLYNOMIAL(hermite_polynomial_h, hermite, x, n, 2)
ATALLA_DEFINE_POLYNOMIAL(hermite_polynomial_he, hermite, x, n, 1)
ATALLA_DEFINE_POLYNOMIAL(laguerre_polynomial_l, laguerre, x, n)
ATALLA_DEFINE_POLYNOMIAL(legendre_polynomial_p, legendre, x, n)

}  // namespace atalla::sim::ATALLA_ISA
