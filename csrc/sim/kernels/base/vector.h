// SPDX-License-Identifier: BSD-3-Clause
//
// SIMD registers of the instruction set that this file is compiled for, as GCC vectors, with the few operations that
// kernels need. ISO C++ has no such type; intrinsics appear only where the vector extension cannot say it (fused
// multiply-add: contraction is off for the whole build; masks).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vec = typename VectorOf<T>::Type;

template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
ATALLA_INLINE Vec<T> load_vector(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
ATALLA_INLINE void store_vector(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}

template <class T>
ATALLA_INLINE Vec<T> broadcast(T x) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>) return _mm512_set1_ps(x);
  else if constexpr (std::is_same_v<T, double>) return _mm512_set1_pd(x);
#elif defined(__AVX2__)
  if constexpr (std::is_same_v<T, float>) return _mm256_set1_ps(x);
  else if constexpr (std::is_same_v<T, double>) return _mm256_set1_pd(x);
#endif
  return Vec<T>{} + x;
}

// a * b + c; fused for floating point where the instruction set has it.
template <class T>
ATALLA_INLINE Vec<T> multiply_add(Vec<T> a, Vec<T> b, Vec<T> c) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>) return _mm512_fmadd_ps(a, b, c);
  else if constexpr (std::is_same_v<T, double>) return _mm512_fmadd_pd(a, b, c);
#elif defined(__FMA__)
  if constexpr (std::is_same_v<T, float>) return _mm256_fmadd_ps(a, b, c);
  else if constexpr (std::is_same_v<T, double>) return _mm256_fmadd_pd(a, b, c);
#endif
  return a * b + c;
}

// The first `count` values of a vector-sized run, and `fill` beyond them.
template <class T>
ATALLA_INLINE Vec<T> load_some(const T* p, int64_t count, T fill = T(0)) {
#if defined(__AVX512F__)
  const __m512i rest = __builtin_bit_cast(__m512i, broadcast<T>(fill));
  if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(Vec<T>, _mm512_mask_loadu_epi32(rest, static_cast<__mmask16>((1u << count) - 1u), p));
  } else {
    return __builtin_bit_cast(Vec<T>, _mm512_mask_loadu_epi64(rest, static_cast<__mmask8>((1u << count) - 1u), p));
  }
#else
  T line[kLanes<T>];
  for (int64_t i = 0; i < kLanes<T>; ++i) line[i] = i < count ? p[i] : fill;
  return load_vector(line);
#endif
}

template <class T>
ATALLA_INLINE void store_some(T* p, Vec<T> v, int64_t count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << count) - 1u), __builtin_bit_cast(__m512i, v));
  } else {
    _mm512_mask_storeu_epi64(p, static_cast<__mmask8>((1u << count) - 1u), __builtin_bit_cast(__m512i, v));
  }
#else
  T line[kLanes<T>];
  store_vector(line, v);
  for (int64_t i = 0; i < count; ++i) p[i] = line[i];
#endif
}

// Combines values by halves: a fixed tree, each level of which has a length that the compiler knows. kCount is a power
// of two; the values are overwritten.
template <int kCount, class T, class Combine>
ATALLA_INLINE T fold(T* values, Combine&& combine) {
  constexpr int kHalf = kCount / 2;
  if constexpr (kHalf == 0) {
    return values[0];
  } else {
    for (int i = 0; i < kHalf; ++i) values[i] = combine(values[i], values[i + kHalf]);
    return fold<kHalf>(values, combine);
  }
}

// The sum of a vector's lanes, by halves.
template <class T>
ATALLA_INLINE T sum_of_lanes(Vec<T> v) {
  T lanes[kLanes<T>];
  store_vector(lanes, v);
  return fold<kLanes<T>>(lanes, [](T a, T b) { return a + b; });
}

}  // namespace atalla::sim::ATALLA_ISA
