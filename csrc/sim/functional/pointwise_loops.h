// SPDX-License-Identifier: BSD-3-Clause
//
// What the generated loops are made of. Included by the generated loops of each dtype class, which
// pointwise_loops_*.cpp instantiate for their types.
#pragma once

#include "vec_math.h"

namespace atalla::sim::ATALLA_ISA {

// How a loop reads and writes an array of T: bool is a byte, and any byte but 0 is true.
template <class T>
struct Element {
  using Stored = T;
  ATALLA_INLINE static T load(const T& x) { return x; }
};
template <>
struct Element<bool> {
  using Stored = uint8_t;
  ATALLA_INLINE static bool load(uint8_t x) { return x != 0; }
};

template <class T>
ATALLA_INLINE T load_element(const void* array, int64_t i) {
  return Element<T>::load(static_cast<const typename Element<T>::Stored*>(array)[i]);
}

// Scalar k of a formula.
template <class T>
ATALLA_INLINE T scalar_param(const atalla_launch_desc& desc, int k) {
  if constexpr (kIsComplex<T>) {
    using R = decltype(T::re);
    return T{static_cast<R>(desc.fparams[k]), static_cast<R>(desc.fparams[6 + k])};
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(desc.fparams[k]);
  } else {
    return static_cast<T>(desc.iparams[k]);
  }
}
ATALLA_INLINE bool scalar_present(const atalla_launch_desc& desc, int k) { return desc.iparams[11] >> k & 1; }

// Whether dtype mask `mask` holds the dtype of loop type T.
template <class T>
consteval bool loop_enabled(uint64_t mask) {
  auto bit = [mask](int d) { return (mask >> d & 1) != 0; };
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
