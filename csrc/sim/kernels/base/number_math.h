// SPDX-License-Identifier: BSD-3-Clause
//
// Functions of formulas that look at integers as such, or at the parts of a floating point number.
#pragma once

#include "sim/kernels/base/vec_math.h"

namespace atalla::sim::ATALLA_ISA {

// Euclid, on magnitudes: the most negative number stays itself.
template <Integer T>
ATALLA_INLINE T gcd(T a, T b) {
  using U = std::make_unsigned_t<T>;
  auto x = static_cast<U>(abs(a));
  auto y = static_cast<U>(abs(b));
  while (x != 0) {
    const U rest = static_cast<U>(y % x);
    y = x;
    x = rest;
  }
  return static_cast<T>(y);
}
template <Integer T>
ATALLA_INLINE T lcm(T a, T b) {
  using Wide = std::conditional_t<sizeof(T) < sizeof(int), int, T>;  // as C++ promotes them, and so upstream
  using U = std::make_unsigned_t<Wide>;
  const Wide divisor = gcd(a, b);
  if (divisor == 0) return 0;
  const U multiple = static_cast<U>(Wide{a} / divisor) * static_cast<U>(Wide{b});
  return static_cast<T>(abs(static_cast<Wide>(multiple)));
}

// The numbers of an IEEE 754 format, in the order of their magnitudes, are the integers of their bits.
template <class U>
ATALLA_INLINE U next_bits(U from, U to) {
  constexpr U kSign = static_cast<U>(U(1) << (8 * sizeof(U) - 1));
  if ((from & ~kSign) == 0) return static_cast<U>((to & kSign) | 1);
  const bool away = ((from ^ to) & kSign) == 0 && (to & ~kSign) > (from & ~kSign);
  return static_cast<U>(away ? from + 1 : from - 1);
}
// The number that follows x on the way to `target`, in the format of `dtype`.
ATALLA_INLINE double nextafter(double x, double target, atalla_dtype) {
  if ((x != x) | (target != target)) return x + target;
  if (x == target) return target;
  return std::bit_cast<double>(next_bits(std::bit_cast<uint64_t>(x), std::bit_cast<uint64_t>(target)));
}
ATALLA_INLINE float nextafter(float x, float target, atalla_dtype dtype) {
  if ((x != x) | (target != target)) return x + target;
  if (dtype == ATALLA_F16) {
    const uint16_t from = float_to_half(x), to = float_to_half(target);
    return x == target ? target : half_to_float(next_bits(from, to));
  }
  if (dtype == ATALLA_BF16) {
    const uint16_t from = float_to_bfloat16(x), to = float_to_bfloat16(target);
    return x == target ? target : bfloat16_to_float(next_bits(from, to));
  }
  if (x == target) return target;
  return std::bit_cast<float>(next_bits(std::bit_cast<uint32_t>(x), std::bit_cast<uint32_t>(target)));
}

// What the layout of a format is made of.
template <class T>
struct Format;
template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int kFraction = 23, kBias = 126;  // for mantissas in [1/2, 1)
  static constexpr float kScale = 0x1p25f;           // makes a denormal normal
  static constexpr int kScaleExponent = 25;
};
template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int kFraction = 52, kBias = 1022;
  static constexpr double kScale = 0x1p54;
  static constexpr int kScaleExponent = 54;
};
// x = mantissa * 2^exponent with the mantissa's magnitude in [1/2, 1); zeros, infinities and NaN are their own
// mantissa.
template <Floating T>
ATALLA_INLINE T frexp_mantissa(T x) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  const T scaled = abs(x) < std::numeric_limits<T>::min() ? x * F::kScale : x;
  constexpr Bits kExponent = static_cast<Bits>((Bits(1) << (8 * sizeof(T) - 1 - F::kFraction)) - 1) << F::kFraction;
  const Bits bits = (std::bit_cast<Bits>(scaled) & ~kExponent) | (static_cast<Bits>(F::kBias) << F::kFraction);
  return (x == T(0)) | !(abs(x) <= std::numeric_limits<T>::max()) ? x : std::bit_cast<T>(bits);
}
template <Floating T>
ATALLA_INLINE int32_t frexp_exponent(T x) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  const bool denormal = abs(x) < std::numeric_limits<T>::min();
  const Bits bits = std::bit_cast<Bits>(denormal ? x * F::kScale : x) & ~(Bits(1) << (8 * sizeof(T) - 1));
  const int32_t exponent = static_cast<int32_t>(bits >> F::kFraction) - F::kBias - (denormal ? F::kScaleExponent : 0);
  return (x == T(0)) | !(abs(x) <= std::numeric_limits<T>::max()) ? 0 : exponent;
}

// 10^n for n >= 0; exact up to 10^22.
[[gnu::const, gnu::noinline]] inline double power_of_ten(int n) {
  double power = 1;
  for (int k = 0; k < n && k < 400; ++k) power *= 10;
  return power;
}
// Half to even, as upstream rounds the scaled number.
template <Floating T>
ATALLA_INLINE T round_decimals(T x, T decimals) {
  const T power = static_cast<T>(power_of_ten(static_cast<int>(abs(decimals))));
  return decimals < T(0) ? round(x / power) * power : round(x * power) / power;
}

}  // namespace atalla::sim::ATALLA_ISA
