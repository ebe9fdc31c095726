// SPDX-License-Identifier: BSD-3-Clause
//
// The parts of the generated loops.
#pragma once

#include "sim/kernels/base/common.h"
#include "sim/kernels/base/complex_math.h"
#include "sim/kernels/base/number_math.h"
#include "sim/kernels/base/vec_math.h"
#include "sim/kernels/special/special_math.h"

namespace atalla::sim::ATALLA_ISA {

// How a loop over T reads and writes an array of S: a bool is a byte, and any byte but 0 is true.
template <class T, class S = T>
struct Element {
  using Stored = T;
  ATALLA_INLINE static T load(const T& x) { return x; }
  ATALLA_INLINE static T store(const T& x) { return x; }
};
template <>
struct Element<bool> {
  using Stored = uint8_t;
  ATALLA_INLINE static bool load(uint8_t x) { return x != 0; }
  ATALLA_INLINE static uint8_t store(bool x) { return x; }
};
template <>
struct Element<float, BFloat16> {
  using Stored = uint16_t;
  ATALLA_INLINE static float load(uint16_t x) { return bfloat16_to_float(x); }
  ATALLA_INLINE static uint16_t store(float x) { return float_to_bfloat16(x); }
};

// pow() of vec_math.h for complex numbers; two cases more, for which the power function is inexact.
template <int kCase, class T>
ATALLA_INLINE Complex<T> pow_case(Complex<T> base, Complex<T> exponent) {
  constexpr Complex<T> kOne = {1, 0};
  if constexpr (kCase == 0) return pow(base, exponent);
  else if constexpr (kCase == 1) return base * base;
  else if constexpr (kCase == 2) return base * base * base;
  else if constexpr (kCase == 3) return sqrt(base);
  else if constexpr (kCase == 4) return kOne / sqrt(base);
  else if constexpr (kCase == 5) return kOne / base;
  else if constexpr (kCase == 6) return kOne / (base * base);
  else if constexpr (kCase == 7) return kOne;
  else return base;
}
template <class T, class F>
ATALLA_INLINE void dispatch_power(Complex<T> exponent, F&& f) {
  constexpr auto number = [](double x) { return Complex<T>{static_cast<T>(x), 0}; };
  if (exponent == number(kPowerCases[1])) return f(std::integral_constant<int, 1>{});
  if (exponent == number(kPowerCases[2])) return f(std::integral_constant<int, 2>{});
  if (exponent == number(kPowerCases[3])) return f(std::integral_constant<int, 3>{});
  if (exponent == number(kPowerCases[4])) return f(std::integral_constant<int, 4>{});
  if (exponent == number(kPowerCases[5])) return f(std::integral_constant<int, 5>{});
  if (exponent == number(kPowerCases[6])) return f(std::integral_constant<int, 6>{});
  if (exponent == number(0)) return f(std::integral_constant<int, 7>{});
  if (exponent == number(1)) return f(std::integral_constant<int, 8>{});
  f(std::integral_constant<int, 0>{});
}

template <class T, class S = T>
ATALLA_INLINE T load_element(const void* array, int64_t i) {
  return Element<T, S>::load(static_cast<const typename Element<T, S>::Stored*>(array)[i]);
}

// A scalar of a formula.
template <class T>
ATALLA_INLINE T scalar_as(const Number& x) {
  if constexpr (kIsComplex<T>) {
    using R = decltype(T::re);
    return T{static_cast<R>(x.real), static_cast<R>(x.imaginary)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(x.real);
  } else {
    return static_cast<T>(x.integer);
  }
}

// Whether dtype mask `mask` holds a dtype that a loop over arrays of T serves. Converting in registers pays where the
// formula itself is short: of BF16, only exact ops have loops.
template <class T>
consteval bool loop_enabled(uint64_t mask, bool exact) {
  auto bit = [mask](int d) { return (mask >> d & 1) != 0; };
  if (std::is_same_v<T, BFloat16>) return exact && bit(ATALLA_BF16);
  if (std::is_same_v<T, bool>) return bit(ATALLA_BOOL);
  if (std::is_same_v<T, uint8_t>) return bit(ATALLA_U8);
  if (std::is_same_v<T, int8_t>) return bit(ATALLA_I8);
  if (std::is_same_v<T, int16_t>) return bit(ATALLA_I16);
  if (std::is_same_v<T, int32_t>) return bit(ATALLA_I32);
  if (std::is_same_v<T, int64_t>) return bit(ATALLA_I64);
  if (std::is_same_v<T, float>) return bit(ATALLA_F32) || bit(ATALLA_F16) || bit(ATALLA_BF16);
  if (std::is_same_v<T, double>) return bit(ATALLA_F64);
  if (std::is_same_v<T, Complex<float>>) return bit(ATALLA_C64);
  return bit(ATALLA_C128);
}

}  // namespace atalla::sim::ATALLA_ISA
