// SPDX-License-Identifier: BSD-3-Clause
//
// How the chip's dtypes are stored, and how one element becomes an element of another dtype.
//
// A storage type is what stands in DRAM: BoolByte for BOOL (any non-zero byte is true), Half and BFloat16 for the
// 16-bit floats, Complex<T> for complex numbers, the C++ type for the rest. Conversions follow upstream's rules:
// float to integer truncates (to U8 by way of int64, so that -1.0 is 255), anything to BOOL is `!= 0`, complex to
// real drops the imaginary part, and the 16-bit floats are reached from float, rounded to nearest even.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "sim/abi/dtype.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {

struct BoolByte {
  uint8_t byte;
};
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
// (Not std::complex: its members are linker-merged templates, which must not be shared between instruction sets.)
template <class T>
struct alignas(2 * sizeof(T)) Complex {
  T re;
  T im;
};

template <class T>
inline constexpr bool kIsComplex = false;
template <class T>
inline constexpr bool kIsComplex<Complex<T>> = true;
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// X(dtype code, storage type, dense index). The dense index numbers rows and columns of the conversion tables.
#define ATALLA_FORALL_DTYPES(X)      \
  X(ATALLA_U8, uint8_t, 0)           \
  X(ATALLA_I8, int8_t, 1)            \
  X(ATALLA_I16, int16_t, 2)          \
  X(ATALLA_I32, int32_t, 3)          \
  X(ATALLA_I64, int64_t, 4)          \
  X(ATALLA_F16, Half, 5)             \
  X(ATALLA_F32, float, 6)            \
  X(ATALLA_F64, double, 7)           \
  X(ATALLA_C64, Complex<float>, 8)   \
  X(ATALLA_C128, Complex<double>, 9) \
  X(ATALLA_BOOL, BoolByte, 10)       \
  X(ATALLA_BF16, BFloat16, 11)

inline constexpr int kNumDtypes = 12;

struct DtypeTraits {
  int8_t index;       // dense index; -1: no such dtype
  atalla_dtype loop;  // the dtype in which pointwise and reduce kernels compute: F32 for the 16-bit floats
};

inline constexpr DtypeTraits kDtypeTraits[kDtypeCodes] = {
    {0, ATALLA_U8},  {1, ATALLA_I8},  {2, ATALLA_I16}, {3, ATALLA_I32},  {4, ATALLA_I64},  {5, ATALLA_F32},
    {6, ATALLA_F32}, {7, ATALLA_F64}, {-1, 0},         {8, ATALLA_C64},  {9, ATALLA_C128}, {10, ATALLA_BOOL},
    {-1, 0},         {-1, 0},         {-1, 0},         {11, ATALLA_F32},
};

inline bool is_dtype(atalla_dtype d) { return dtype_size(d) != 0; }

[[gnu::always_inline]] inline float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

[[gnu::always_inline]] inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

// Integer arithmetic only, so that it is right without F16C and vectorises.
[[gnu::always_inline]] inline float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  // Normal numbers move by 13 bits and 112 in the exponent; infinities and NaNs by 112 more.
  const uint32_t normal = (magnitude << 13) + (112u << 23) + (magnitude >= 0x7c00u ? 112u << 23 : 0u);
  // A denormal half is magnitude * 2^-24, exact in float.
  const uint32_t denormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  return std::bit_cast<float>(sign | (magnitude < 0x0400u ? denormal : normal));
}

[[gnu::always_inline]] inline uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 puts a value below 2^-14 on the grid of denormal halves (2^-24 = the last place of 0.5), rounded by
  // the adder; the low bits of the sum are then the half's.
  const uint32_t denormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t finite = magnitude < 0x38800000u ? denormal : normal;
  return static_cast<uint16_t>(sign | (magnitude >= 0x47800000u ? special : finite));
}

// One element of storage type S as storage type D.
template <class D, class S>
[[gnu::always_inline]] inline D convert(S value) {
  if constexpr (std::is_same_v<D, S>) {
    if constexpr (std::is_same_v<D, BoolByte>) {
      return BoolByte{static_cast<uint8_t>(value.byte != 0)};
    } else {
      return value;
    }
  } else if constexpr (std::is_same_v<S, BoolByte>) {
    return convert<D>(static_cast<uint8_t>(value.byte != 0));
  } else if constexpr (std::is_same_v<S, Half>) {
    return convert<D>(half_to_float(value.bits));
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    return convert<D>(bfloat16_to_float(value.bits));
  } else if constexpr (kIsComplex<D>) {
    using T = decltype(D::re);
    if constexpr (kIsComplex<S>) {
      return D{static_cast<T>(value.re), static_cast<T>(value.im)};
    } else {
      return D{convert<T>(value), T(0)};
    }
  } else if constexpr (std::is_same_v<D, BoolByte>) {
    if constexpr (kIsComplex<S>) {
      return BoolByte{static_cast<uint8_t>((value.re != 0) | (value.im != 0))};
    } else {
      return BoolByte{static_cast<uint8_t>(value != S(0))};
    }
  } else if constexpr (kIsComplex<S>) {
    return convert<D>(value.re);
  } else if constexpr (std::is_same_v<D, Half>) {
    return Half{float_to_half(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<D, BFloat16>) {
    return BFloat16{float_to_bfloat16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<S, uint32_t> || std::is_same_v<S, uint64_t>) {
    return convert<D>(static_cast<std::make_signed_t<S>>(value));  // no dtype: signed numbers that wrap
  } else if constexpr (std::is_floating_point_v<S> && std::is_unsigned_v<D>) {
    return static_cast<D>(static_cast<int64_t>(value));  // a negative number wraps
  } else if constexpr (std::is_floating_point_v<S> && std::is_integral_v<D> && sizeof(D) < 4) {
    return static_cast<D>(static_cast<int32_t>(value));
  } else {
    return static_cast<D>(value);
  }
}

}  // namespace atalla::sim::ATALLA_ISA
