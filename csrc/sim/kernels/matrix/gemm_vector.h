// SPDX-License-Identifier: BSD-3-Clause
//
// SIMD registers of the instruction set that this file is compiled for, as GCC vectors, with the few operations that
// the matrix kernels need. ISO C++ has no such type; intrinsics appear only where the vector extension cannot say it
// (fused multiply-add: contraction is off for the whole build).
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "sim/kernels/base/kernel.h"
#include "sim/kernels/base/operand.h"

namespace atalla::sim::ATALLA_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kMaxRows = 14;  // 14 x 2 accumulators + 2 of B + 1 broadcast = 31 of 32 registers
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kMaxRows = 6;  // 6 x 2 accumulators + 2 + 1 = 15 of 16 registers
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kMaxRows = 6;
#endif
inline constexpr int kMaxVectors = 2;  // vectors of a full B panel

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vec = typename VectorOf<T>::Type;

template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
// Columns of a full B panel.
template <class T>
inline constexpr int kPanel = kMaxVectors * kLanes<T>;

template <class T>
[[gnu::always_inline]] inline Vec<T> load_vector(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
[[gnu::always_inline]] inline void store_vector(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}

template <class T>
[[gnu::always_inline]] inline Vec<T> broadcast(T x) {
  return Vec<T>{} + x;
}

// a * b + c; fused for floating point where the instruction set has it.
template <class T>
[[gnu::always_inline]] inline Vec<T> multiply_add(Vec<T> a, Vec<T> b, Vec<T> c) {
  return a * b + c;
}
#if defined(__AVX512F__)
template <>
[[gnu::always_inline]] inline Vec<float> broadcast(float x) {
  return _mm512_set1_ps(x);
}
template <>
[[gnu::always_inline]] inline Vec<double> broadcast(double x) {
  return _mm512_set1_pd(x);
}
template <>
[[gnu::always_inline]] inline Vec<float> multiply_add<float>(Vec<float> a, Vec<float> b, Vec<float> c) {
  return _mm512_fmadd_ps(a, b, c);
}
template <>
[[gnu::always_inline]] inline Vec<double> multiply_add<double>(Vec<double> a, Vec<double> b, Vec<double> c) {
  return _mm512_fmadd_pd(a, b, c);
}
#elif defined(__FMA__)
template <>
[[gnu::always_inline]] inline Vec<float> broadcast(float x) {
  return _mm256_set1_ps(x);
}
template <>
[[gnu::always_inline]] inline Vec<double> broadcast(double x) {
  return _mm256_set1_pd(x);
}
template <>
[[gnu::always_inline]] inline Vec<float> multiply_add<float>(Vec<float> a, Vec<float> b, Vec<float> c) {
  return _mm256_fmadd_ps(a, b, c);
}
template <>
[[gnu::always_inline]] inline Vec<double> multiply_add<double>(Vec<double> a, Vec<double> b, Vec<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}
#endif

// Integer type of the width of T, for shuffle masks.
template <size_t Bytes>
struct MaskOf;
template <>
struct MaskOf<4> {
  using Type = int32_t;
};
template <>
struct MaskOf<8> {
  using Type = int64_t;
};

// Transposes a square of kLanes x kLanes values held in registers, in log2(lanes) butterfly steps.
template <class T>
[[gnu::always_inline]] inline void transpose_square(Vec<T> (&rows)[kLanes<T>]) {
  constexpr int n = kLanes<T>;
  using Index = typename MaskOf<sizeof(T)>::Type;
#pragma GCC unroll 4
  for (int step = 1; step < n; step *= 2) {
    Vec<Index> low, high;
    for (int lane = 0; lane < n; ++lane) {
      const bool odd = (lane & step) != 0;
      low[lane] = static_cast<Index>(odd ? n + lane - step : lane);
      high[lane] = static_cast<Index>(odd ? n + lane : lane + step);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
      if (i & step) continue;
      const Vec<T> x = rows[i], y = rows[i + step];
      rows[i] = __builtin_shuffle(x, y, low);
      rows[i + step] = __builtin_shuffle(x, y, high);
    }
  }
}

}  // namespace atalla::sim::ATALLA_ISA
