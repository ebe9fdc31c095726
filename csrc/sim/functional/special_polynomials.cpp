// SPDX-License-Identifier: BSD-3-Clause
//
// Orthogonal polynomials by their three-term recurrences (DLMF 18.9), in the order of operations of upstream, so that
// results agree where they overflow too. Chebyshev polynomials of higher degree inside (-1, 1) by DLMF 18.5.1
// to 18.5.4.
#include "special_math.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

// Degrees that are no 64-bit integers count as negative, for which upstream gives 0.
template <class T>
int64_t degree(T n) {
  return n >= T(-0x1p63) && n < T(0x1p63) ? static_cast<int64_t>(n) : -1;
}
bool even(int64_t n) { return n % 2 == 0; }

// p_n from p_0 = 1, p_1 = `first` and step(k, p_(k-1), p_(k-2)) for k = 2 ... n; ends at the first NaN.
template <class T, class Step>
T recurrence(int64_t n, T first, Step&& step) {
  if (n == 0) return 1;
  T before = 1, last = first;
  for (int64_t k = 2; k <= n && last == last; ++k) {
    const T next = step(k, last, before);
    before = last;
    last = next;
  }
  return last;
}

enum class Kind { kT, kU, kV, kW };

// x in the polynomials' own interval [-1, 1]; `limit`: the last degree for which the recurrence serves inside it.
template <class T>
T chebyshev(Kind kind, T x, T degrees, int64_t limit) {
  const int64_t n = degree(degrees);
  if (n < 0) return 0;
  const T odd_sign = even(n) ? T(1) : T(-1);
  if (x == T(1)) return kind == Kind::kU ? T(n + 1) : kind == Kind::kW ? T(n + n + 1) : T(1);
  if (x == T(-1)) return odd_sign * (kind == Kind::kU ? T(n + 1) : kind == Kind::kV ? T(n + n + 1) : T(1));
  if (n > limit && abs(x) < T(1)) {
    const T angle = std::acos(x);
    const T half = angle / T(2);
    switch (kind) {
      case Kind::kT:
        return std::cos(static_cast<T>(n) * angle);
      case Kind::kU:
        return std::sin(static_cast<T>(n + 1) * angle) / std::sin(angle);
      case Kind::kV:
        return std::cos((static_cast<T>(n) + T(0.5)) * angle) / std::cos(half);
      default:
        return std::sin((static_cast<T>(n) + T(0.5)) * angle) / std::sin(half);
    }
  }
  const T twice = x + x;
  const T first = kind == Kind::kT ? x : kind == Kind::kU ? twice : kind == Kind::kV ? twice - T(1) : twice + T(1);
  return recurrence(n, first, [twice](int64_t, T last, T before) { return twice * last - before; });
}
template <class T>
T shifted(T x) {
  return x + x - T(1);
}

template <class T>
constexpr int64_t kHermiteLimit = std::is_same_v<T, float> ? 128 : 512;

template <class T>
T hermite_h(T x, T degrees) {
  const int64_t n = degree(degrees);
  if (n < 0) return 0;
  if (n > kHermiteLimit<T>) return std::numeric_limits<T>::quiet_NaN();
  const T twice = x + x;
  T before = 1, last = twice;
  if (n == 0) return 1;
  for (int64_t k = 2; k < n + n; k += 2) {
    const T next = twice * last - static_cast<T>(k) * before;
    before = last;
    last = next;
  }
  return last;
}
template <class T>
T hermite_he(T x, T degrees) {
  const int64_t n = degree(degrees);
  if (n < 0) return 0;
  if (n > kHermiteLimit<T>) return std::numeric_limits<T>::quiet_NaN();
  T before = 1, last = x;
  if (n == 0) return 1;
  for (int64_t k = 1; k < n; ++k) {
    const T next = x * last - static_cast<T>(k) * before;
    before = last;
    last = next;
  }
  return last;
}
template <class T>
T laguerre(T x, T degrees) {
  const int64_t n = degree(degrees);
  if (n < 0) return 0;
  if (x == T(0)) return 1;
  return recurrence(n, T(1) - x, [x](int64_t k, T last, T before) {
    const T m = static_cast<T>(k - 1);
    return ((m + m + (T(1) - x)) * last - m * before) / (m + T(1));
  });
}
template <class T>
T legendre(T x, T degrees) {
  const int64_t n = degree(degrees);
  if (n < 0) return 0;
  if (abs(x) == T(1)) return x > T(0) || even(n) ? T(1) : T(-1);
  return recurrence(n, x, [x](int64_t k, T last, T before) {
    const T m = static_cast<T>(k - 1);
    return ((m + m + T(1)) * x * last - m * before) / (m + T(1));
  });
}

}  // namespace

#define ATALLA_DEFINE_POLYNOMIAL(name, value)    \
  float name(float x, float n) { return value; } \
  double name(double x, double n) { return value; }
ATALLA_DEFINE_POLYNOMIAL(chebyshev_polynomial_t, chebyshev(Kind::kT, x, n, 6))
ATALLA_DEFINE_POLYNOMIAL(chebyshev_polynomial_u, chebyshev(Kind::kU, x, n, 8))
ATALLA_DEFINE_POLYNOMIAL(chebyshev_polynomial_v, chebyshev(Kind::kV, x, n, 8))
ATALLA_DEFINE_POLYNOMIAL(chebyshev_polynomial_w, chebyshev(Kind::kW, x, n, 8))
ATALLA_DEFINE_POLYNOMIAL(shifted_chebyshev_polynomial_t, chebyshev(Kind::kT, shifted(x), n, 6))
ATALLA_DEFINE_POLYNOMIAL(shifted_chebyshev_polynomial_u, chebyshev(Kind::kU, shifted(x), n, 6))
ATALLA_DEFINE_POLYNOMIAL(shifted_chebyshev_polynomial_v, chebyshev(Kind::kV, shifted(x), n, 6))
ATALLA_DEFINE_POLYNOMIAL(shifted_chebyshev_polynomial_w, chebyshev(Kind::kW, shifted(x), n, 4))
ATALLA_DEFINE_POLYNOMIAL(hermite_polynomial_h, hermite_h(x, n))
ATALLA_DEFINE_POLYNOMIAL(hermite_polynomial_he, hermite_he(x, n))
ATALLA_DEFINE_POLYNOMIAL(laguerre_polynomial_l, laguerre(x, n))
ATALLA_DEFINE_POLYNOMIAL(legendre_polynomial_p, legendre(x, n))

}  // namespace atalla::sim::ATALLA_ISA
