// SPDX-License-Identifier: BSD-3-Clause
//
// The functions that formulas of pointwise ops may call, overloaded for float, double and the integers.
//
// Transcendental functions of float and double vectorise through glibc's libmvec: at most 4 ulp from the exact result
// (glibc's documented bound), with the special values of C's Annex F. sqrt, the roundings, and all arithmetic are exact
// as IEEE 754 defines them. fmod, remainder and div_floor are exact too, and scalar.
//
// libmvec is reached by declaring the scalar functions as SIMD functions, which must happen before <cmath>.
#pragma once

#define ATALLA_SIMD_UNARY(name)                                          \
  __attribute__((__simd__("notinbranch"))) double name(double) noexcept; \
  __attribute__((__simd__("notinbranch"))) float name##f(float) noexcept;
#define ATALLA_SIMD_BINARY(name)                                                 \
  __attribute__((__simd__("notinbranch"))) double name(double, double) noexcept; \
  __attribute__((__simd__("notinbranch"))) float name##f(float, float) noexcept;
// clang-format off
#define ATALLA_FORALL_SIMD_UNARY(X)                                     \
  X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(cbrt) X(cos)     \
  X(cosh) X(erfc) X(exp) X(exp2) X(expm1) X(log) X(log10) X(log1p)      \
  X(log2) X(sin) X(sinh) X(tan) X(tanh)
// clang-format on
#define ATALLA_FORALL_SIMD_BINARY(X) X(atan2) X(hypot) X(pow)

extern "C" {
ATALLA_FORALL_SIMD_UNARY(ATALLA_SIMD_UNARY)
ATALLA_FORALL_SIMD_BINARY(ATALLA_SIMD_BINARY)
__attribute__((__simd__("notinbranch"))) double erf(double) noexcept;
}

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sim/kernels/pointwise/pointwise.h"

namespace atalla::sim::ATALLA_ISA {

template <class T>
concept Floating = std::is_floating_point_v<T>;
template <class T>
concept Integer = std::is_integral_v<T>;  // bool included
template <class T>
concept Real = std::is_arithmetic_v<T>;

// -------------------------------------------------------------------------------------- functions of the C library
#define ATALLA_DEFINE_UNARY(name)                            \
  ATALLA_INLINE float name(float x) { return ::name##f(x); } \
  ATALLA_INLINE double name(double x) { return ::name(x); }
#define ATALLA_DEFINE_BINARY(name)                                       \
  ATALLA_INLINE float name(float x, float y) { return ::name##f(x, y); } \
  ATALLA_INLINE double name(double x, double y) { return ::name(x, y); }
ATALLA_FORALL_SIMD_UNARY(ATALLA_DEFINE_UNARY)
ATALLA_DEFINE_BINARY(atan2)
ATALLA_DEFINE_BINARY(hypot)
ATALLA_DEFINE_UNARY(ceil)
ATALLA_DEFINE_UNARY(floor)
ATALLA_DEFINE_UNARY(trunc)
ATALLA_DEFINE_UNARY(sqrt)
ATALLA_DEFINE_BINARY(copysign)

#ifdef __FMA__
ATALLA_INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
ATALLA_INLINE float multiply_add(float a, float b, float c) { return a * b + c; }
#endif

ATALLA_INLINE double erf(double x) { return ::erf(x); }
// At most 4 ulp, and faster than libmvec's: erf(x) = x P(x^2) / Q(x^2) on [0, 4], with P and Q of degree 5 fitted by
// iteratively reweighted least squares to a relative error of 2.5e-8; beyond 3.92 the nearest float is 1.
ATALLA_INLINE float erf(float x) {
  const float magnitude = __builtin_fabsf(x);
  const float a = magnitude > 4.0f ? 4.0f : magnitude;
  const float z = a * a;
  float p = 0x1.0aaa16p-19f;
  p = multiply_add(p, z, 0x1.2a6272p-12f);
  p = multiply_add(p, z, 0x1.fcf9f2p-9f);
  p = multiply_add(p, z, 0x1.b30164p-5f);
  p = multiply_add(p, z, 0x1.8c5f68p-3f);
  p = multiply_add(p, z, 0x1.20dd74p+0f);
  float q = 0x1.39e73cp-15f;
  q = multiply_add(q, z, 0x1.36c79cp-10f);
  q = multiply_add(q, z, 0x1.f24cf6p-7f);
  q = multiply_add(q, z, 0x1.d877a0p-4f);
  q = multiply_add(q, z, 0x1.027c3cp-1f);
  q = multiply_add(q, z, 1.0f);
  const float y = a * p / q;
  return __builtin_copysignf(y > 1.0f ? 1.0f : y, x);
}

// Half to even, as upstream's round.
ATALLA_INLINE float round(float x) { return ::rintf(x); }
ATALLA_INLINE double round(double x) { return ::rint(x); }

// ------------------------------------------------------------------------------------------------- classification
template <Real T>
ATALLA_INLINE bool isnan(T x) {
  return x != x;
}
template <Real T>
ATALLA_INLINE bool isinf(T x) {
  if constexpr (Floating<T>)
    return (x == std::numeric_limits<T>::infinity()) | (x == -std::numeric_limits<T>::infinity());
  return false;
}
ATALLA_INLINE bool signbit(float x) { return std::bit_cast<int32_t>(x) < 0; }
ATALLA_INLINE bool signbit(double x) { return std::bit_cast<int64_t>(x) < 0; }

// ------------------------------------------------------------------------------------------------------ arithmetic
template <Real T>
ATALLA_INLINE T abs(T x) {
  if constexpr (std::is_same_v<T, float>) return __builtin_fabsf(x);
  else if constexpr (std::is_same_v<T, double>) return __builtin_fabs(x);
  else if constexpr (std::is_unsigned_v<T>) return x;
  else {
    using U = std::make_unsigned_t<T>;  // the most negative value stays itself
    return static_cast<T>(x < 0 ? static_cast<U>(U(0) - static_cast<U>(x)) : static_cast<U>(x));
  }
}
// -1, 0 or 1; 0 for NaN.
template <Real T>
ATALLA_INLINE T sign(T x) {
  return static_cast<T>(static_cast<int>(T(0) < x) - static_cast<int>(x < T(0)));
}
// NaN if either is.
template <Real T>
ATALLA_INLINE T maximum(T a, T b) {
  return (a > b) | (a != a) ? a : b;
}
template <Real T>
ATALLA_INLINE T minimum(T a, T b) {
  return (a < b) | (a != a) ? a : b;
}
// The other one if one is NaN.
template <Real T>
ATALLA_INLINE T fmax(T a, T b) {
  return (a >= b) | (b != b) ? a : b;
}
template <Real T>
ATALLA_INLINE T fmin(T a, T b) {
  return (a <= b) | (b != b) ? a : b;
}
template <Real T>
ATALLA_INLINE T clamp(T x, bool has_min, T min, bool has_max, T max) {
  const T low = maximum(x, min);
  const T bounded = has_min ? low : x;
  const T high = minimum(bounded, max);
  return has_max ? high : bounded;
}
template <Floating T>
ATALLA_INLINE T reciprocal(T x) {
  return T(1) / x;
}
template <Floating T>
ATALLA_INLINE T rsqrt(T x) {
  return T(1) / sqrt(x);
}
template <Floating T>
ATALLA_INLINE T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
// log(x / (1 - x)) with x kept within [eps, 1 - eps], where that is given and not negative.
template <Floating T>
ATALLA_INLINE T logit(T x, bool has_eps, T eps) {
  const bool bounded = has_eps & (eps >= T(0));
  const T high = x > T(1) - eps ? T(1) - eps : x;
  const T kept = bounded ? (x < eps ? eps : high) : x;
  const T value = log(kept / (T(1) - kept));
  return kept == T(1) ? std::numeric_limits<T>::infinity() : value;
}

// --------------------------------------------------------------------------------------- gradients of activations
// Of gelu's approximation, for t = tanh(c (x + 0.044715 x^3)).
template <Floating T>
ATALLA_INLINE T gelu_tanh_gradient(T x, T t) {
  constexpr T kScale = static_cast<T>(M_SQRT2 * M_2_SQRTPI * 0.5);
  const T inner = kScale * (T(1) + T(3 * 0.044715) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner;
}

// libmvec leaves negative bases to scalar code, lane by lane; here they go through the power of the magnitude.
template <Floating T>
ATALLA_INLINE T pow(T base, T exponent) {
  T magnitude;
  if constexpr (std::is_same_v<T, float>) magnitude = ::powf(abs(base), exponent);
  else magnitude = ::pow(abs(base), exponent);
  const bool integral = floor(exponent) == exponent;
  const T half = exponent * T(0.5);
  const bool odd = integral & (floor(half) != half);
  const T power = odd & signbit(base) ? -magnitude : magnitude;
  return !integral & (base < T(0)) & !isinf(base) ? std::numeric_limits<T>::quiet_NaN() : power;
}

// A negative exponent gives the integer part of the reciprocal power: 0, but for bases of 1 and -1.
template <Integer T>
ATALLA_INLINE T pow(T base, T exponent) {
  using U = std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>;
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;
    }
  }
  U result = 1;
  U factor = static_cast<U>(base);
  for (U e = static_cast<U>(exponent); e != 0; e = static_cast<U>(e >> 1)) {
    if (e & 1) result = static_cast<U>(result * factor);
    factor = static_cast<U>(factor * factor);
  }
  return static_cast<T>(result);
}
// pow() for an exponent that is the same for all elements: kCase indexes kPowerCases, and 0 means any exponent. A
// loop is compiled for each case.
inline constexpr double kPowerCases[] = {0, 2, 3, 0.5, -0.5, -1, -2};
template <int kCase, Real T>
ATALLA_INLINE T pow_case(T base, T exponent) {
  if constexpr (kCase == 0) return pow(base, exponent);
  else if constexpr (kCase == 1) return static_cast<T>(base * base);
  else if constexpr (kCase == 2) return static_cast<T>(static_cast<T>(base * base) * base);
  else if constexpr (!Floating<T>) return pow(base, exponent);
  else if constexpr (kCase == 3) return sqrt(base);
  else if constexpr (kCase == 4) return T(1) / sqrt(base);
  else if constexpr (kCase == 5) return T(1) / base;
  else return T(1) / (base * base);
}
// Calls f with std::integral_constant<int, case>.
template <Real T, class F>
ATALLA_INLINE void dispatch_power(T exponent, F&& f) {
  if (exponent == T(kPowerCases[1])) return f(std::integral_constant<int, 1>{});
  if (exponent == T(kPowerCases[2])) return f(std::integral_constant<int, 2>{});
  if constexpr (Floating<T>) {
    if (exponent == T(kPowerCases[3])) return f(std::integral_constant<int, 3>{});
    if (exponent == T(kPowerCases[4])) return f(std::integral_constant<int, 4>{});
    if (exponent == T(kPowerCases[5])) return f(std::integral_constant<int, 5>{});
    if (exponent == T(kPowerCases[6])) return f(std::integral_constant<int, 6>{});
  }
  f(std::integral_constant<int, 0>{});
}

// ------------------------------------------------------------------------------------------------------- division
// Integer division by zero raises the launch's fault and yields 0.
template <Integer T>
ATALLA_INLINE bool divisor_is_zero(T b) {
  if (b != T(0)) [[likely]]
    return false;
  element_fault = "integer division by zero";
  return true;
}
template <Real T>
ATALLA_INLINE T div_trunc(T a, T b) {
  if constexpr (Floating<T>) {
    return trunc(a / b);
  } else {
    if (divisor_is_zero(b)) return 0;
    if constexpr (std::is_signed_v<T>) {
      // The most negative number divided by -1 wraps, where the host's instruction would trap.
      if (b == T(-1)) return static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a));
    }
    return static_cast<T>(a / b);
  }
}
// The remainder of floats, exactly, without the C library's loop over the bits of the quotient, where the quotient is
// small (divides_easily). Loops over arrays ask that of a whole block first, and then have no branch in them: a formula
// that calls fmod, remainder or div_floor has a second loop in which quick_fmod, ... stand for them.
template <Floating T>
ATALLA_INLINE bool divides_easily(T a, T b) {
#ifndef __FMA__
  if (sizeof(T) == 8) return false;
#endif
  constexpr T kBound = sizeof(T) == 8 ? T(0x1p52) : T(0x1p27);
  return (abs(a) < kBound * abs(b)) & (abs(b) <= std::numeric_limits<T>::max());
}
// A quotient n - e below the integer n has e >= 2^-24 (a and n b are multiples of b's last place), so that in double
// one below 2^28 does not round up to n, and its product with b (28 and 24 bits) is exact.
ATALLA_INLINE float quick_fmod(float a, float b) {
  const double x = a, y = b;
  return copysign(static_cast<float>(x - trunc(x / y) * y), a);
}
// The quotient may have rounded up to the next integer; the fused product is exact, and shows it by its sign.
ATALLA_INLINE double quick_fmod(double a, double b) {
#ifdef __FMA__
  const double rest = __builtin_fma(-trunc(a / b), b, a);
#else
  const double rest = a - trunc(a / b) * b;  // never reached
#endif
  const double size = abs(rest);
  return copysign((rest < 0) == (a < 0) || rest == 0 ? size : abs(b) - size, a);
}
ATALLA_INLINE float fmod(float a, float b) { return divides_easily(a, b) ? quick_fmod(a, b) : ::fmodf(a, b); }
ATALLA_INLINE double fmod(double a, double b) { return divides_easily(a, b) ? quick_fmod(a, b) : ::fmod(a, b); }
template <Integer T>
ATALLA_INLINE T fmod(T a, T b) {
  if (divisor_is_zero(b)) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return 0;
  }
  return static_cast<T>(a % b);
}
// The remainder that has the sign of the divisor.
template <Real T>
ATALLA_INLINE T with_sign_of(T m, T b) {
  return m != T(0) && (m < T(0)) != (b < T(0)) ? static_cast<T>(m + b) : m;
}
template <Real T>
ATALLA_INLINE T remainder(T a, T b) {
  return with_sign_of(fmod(a, b), b);
}
template <Floating T>
ATALLA_INLINE T quick_remainder(T a, T b) {
  return with_sign_of(quick_fmod(a, b), b);
}
// The quotient rounded down, given m = fmod(a, b); a / 0 is as in IEEE 754.
template <Floating T>
ATALLA_INLINE T floor_of_quotient(T a, T b, T m) {
  const T plain = a / b;
  T quotient = (a - m) / b;
  quotient = m != T(0) && (m < T(0)) != (b < T(0)) ? quotient - T(1) : quotient;
  // `quotient` is an integer up to its rounding error.
  T down = floor(quotient);
  down = quotient - down > T(0.5) ? down + T(1) : down;
  const T rounded = quotient != T(0) ? down : copysign(T(0), plain);
  return b == T(0) ? plain : rounded;
}
// The quotient rounded down, consistent with remainder().
template <Real T>
ATALLA_INLINE T div_floor(T a, T b) {
  if constexpr (Floating<T>) {
    return floor_of_quotient(a, b, fmod(a, b));
  } else {
    if (divisor_is_zero(b)) return 0;
    const T quotient = div_trunc(a, b);
    if constexpr (std::is_signed_v<T>) {
      const bool down = (a < 0) != (b < 0) && fmod(a, b) != 0;
      return static_cast<T>(quotient - static_cast<T>(down));
    }
    return quotient;
  }
}
template <Floating T>
ATALLA_INLINE T quick_div_floor(T a, T b) {
  return floor_of_quotient(a, b, quick_fmod(a, b));
}

// ------------------------------------------------------------------------------------------------------------- bits
// Shifts by less than 0, or by the width or more, move every bit out.
template <Integer T>
ATALLA_INLINE T shift_left(T x, T count) {
  using U = std::make_unsigned_t<T>;
  using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, U>;
  const bool out = (count < T(0)) | (count >= T(8 * sizeof(T)));
  const Wide shifted = static_cast<Wide>(static_cast<U>(x)) << (out ? T(0) : count);
  return out ? T(0) : static_cast<T>(shifted);
}
template <Integer T>
ATALLA_INLINE T shift_right(T x, T count) {
  const bool out = (count < T(0)) | (count >= T(8 * sizeof(T)));
  const T most = static_cast<T>(8 * sizeof(T) - 1);
  const T shifted = static_cast<T>(x >> (out ? most : count));
  return std::is_unsigned_v<T> && out ? T(0) : shifted;
}

}  // namespace atalla::sim::ATALLA_ISA
