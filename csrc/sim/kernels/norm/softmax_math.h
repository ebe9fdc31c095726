// SPDX-License-Identifier: BSD-3-Clause
//
// Vector arithmetic of the row kernels: GCC's vector extension at the width of the instruction set, the exponential of
// non-positive numbers, and reductions over a run. A run's last, partial vector is filled up, so that every element
// takes the same path and a result depends on the values and their count alone.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__FMA__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

#if defined(__AVX512F__)
#define ATALLA_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define ATALLA_VECTOR_BYTES 32
#else
#define ATALLA_VECTOR_BYTES 16
#endif

// V is a vector of T, U of unsigned integers as wide. kRound is 1.5 * 2^(fraction bits): adding it rounds to an integer
// and leaves that integer in the low bits. kLn2High has so many trailing zeros that its product with an exponent is
// exact (Cody and Waite, Software Manual for the Elementary Functions, 1980).
template <class T>
struct Simd;

template <>
struct Simd<float> {
  typedef float V __attribute__((vector_size(ATALLA_VECTOR_BYTES)));
  typedef uint32_t U __attribute__((vector_size(ATALLA_VECTOR_BYTES)));
  static constexpr int kLanes = ATALLA_VECTOR_BYTES / sizeof(float);
  static constexpr float kRound = 0x1.8p23f;
  static constexpr uint32_t kRoundBits = 0x4b400000u;
  static constexpr int kFractionBits = 23;
  static constexpr uint32_t kBias = 127;
  static constexpr float kLog2e = 0x1.715476p0f;
  static constexpr float kLn2High = 0x1.62e4p-1f;
  static constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kUnderflow = -103.98f;  // e^x is below half of the smallest subnormal, 2^-150
  static constexpr int kDegree = 7;              // Taylor remainder (ln2/2)^8 / 8! = 5e-9 of the value
};

template <>
struct Simd<double> {
  typedef double V __attribute__((vector_size(ATALLA_VECTOR_BYTES)));
  typedef uint64_t U __attribute__((vector_size(ATALLA_VECTOR_BYTES)));
  static constexpr int kLanes = ATALLA_VECTOR_BYTES / sizeof(double);
  static constexpr double kRound = 0x1.8p52;
  static constexpr uint64_t kRoundBits = 0x4338000000000000u;
  static constexpr int kFractionBits = 52;
  static constexpr uint64_t kBias = 1023;
  static constexpr double kLog2e = 0x1.71547652b82fep0;
  static constexpr double kLn2High = 0x1.62e42fefap-1;
  static constexpr double kLn2Low = 0x1.cf79abc9e3b39p-40;
  static constexpr double kUnderflow = -745.14;  // likewise, 2^-1075
  static constexpr int kDegree = 13;             // Taylor remainder (ln2/2)^14 / 14! = 4e-18 of the value
};

template <class T>
ATALLA_INLINE typename Simd<T>::V splat(T x) {
  return typename Simd<T>::V{} + x;
}

template <class T>
ATALLA_INLINE typename Simd<T>::V load_vector(const T* p) {
  typename Simd<T>::V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
ATALLA_INLINE typename Simd<T>::V load_partial(const T* p, int64_t count, T fill) {
  T lanes[Simd<T>::kLanes];
  for (int i = 0; i < Simd<T>::kLanes; ++i) lanes[i] = i < count ? p[i] : fill;
  return load_vector(lanes);
}

template <class T>
ATALLA_INLINE void store_vector(T* p, typename Simd<T>::V v) {
  std::memcpy(p, &v, sizeof v);
}

template <class T>
ATALLA_INLINE void store_partial(T* p, int64_t count, typename Simd<T>::V v) {
  T lanes[Simd<T>::kLanes];
  store_vector(lanes, v);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

// a * b + c, fused where the instruction set has it.
template <class T>
ATALLA_INLINE typename Simd<T>::V multiply_add(typename Simd<T>::V a, typename Simd<T>::V b, typename Simd<T>::V c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_fmadd_ps(a, b, c);
  else return _mm512_fmadd_pd(a, b, c);
#elif defined(__AVX2__) && defined(__FMA__)
  if constexpr (sizeof(T) == 4) return _mm256_fmadd_ps(a, b, c);
  else return _mm256_fmadd_pd(a, b, c);
#else
  return a * b + c;
#endif
}

// e^x for x <= 0, -inf or NaN, about 1 ulp, gradual underflow included: x = n ln2 + r, |r| <= ln2 / 2, e^r by its
// Taylor polynomial, and 2^n in two factors so that a subnormal result is rounded once.
template <class T>
ATALLA_INLINE typename Simd<T>::V exp_nonpositive(typename Simd<T>::V x) {
  using S = Simd<T>;
  using V = typename S::V;
  using U = typename S::U;
  const auto vanishes = x < S::kUnderflow;
  x = vanishes ? splat<T>(S::kUnderflow) : x;
  const V shifted = multiply_add<T>(x, splat<T>(S::kLog2e), splat<T>(S::kRound));
  const V n = shifted - S::kRound;
  V r = multiply_add<T>(n, splat<T>(-S::kLn2High), x);
  r = multiply_add<T>(n, splat<T>(-S::kLn2Low), r);
  constexpr double kFactorial[] = {1,    1,     2,      6,       24,       120,       720,
                                   5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800};
  V p = splat<T>(static_cast<T>(1 / kFactorial[S::kDegree]));
#pragma GCC unroll 16
  for (int k = S::kDegree - 1; k >= 0; --k) p = multiply_add<T>(p, r, splat<T>(static_cast<T>(1 / kFactorial[k])));
  p = vanishes ? V{} : p;
  // n + 2048 is positive, so that a logical shift halves it.
  const U exponent = reinterpret_cast<U>(shifted) - S::kRoundBits;
  const U half = ((exponent + 2048) >> 1) - 1024;
  const U rest = exponent - half;
  return p * reinterpret_cast<V>((half + S::kBias) << S::kFractionBits) *
         reinterpret_cast<V>((rest + S::kBias) << S::kFractionBits);
}

// Combines the lanes of a vector by halves: a fixed tree.
template <class T, class Combine>
ATALLA_INLINE T fold(T* lanes, int count, Combine&& combine) {
#pragma GCC unroll 4
  for (int half = count / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = combine(lanes[i], lanes[i + half]);
  }
  return lanes[0];
}

// The lanes of four accumulators, added in double.
template <class T>
ATALLA_INLINE double add_lanes(const typename Simd<T>::V* acc) {
  constexpr int kLanes = Simd<T>::kLanes;
  T lanes[kLanes];
  double wide[kLanes];
  store_vector(lanes, (acc[0] + acc[1]) + (acc[2] + acc[3]));
  for (int i = 0; i < kLanes; ++i) wide[i] = static_cast<double>(lanes[i]);
  return fold(wide, kLanes, [](double a, double b) { return a + b; });
}

// Sum over [0, n) of term(vector, begin, count): vectors of T in four accumulators, emptied into a double every
// kSegment elements, so that the rounding error does not grow with n. The last vector has count < kLanes; term must
// give 0 in the lanes beyond it.
template <class T, class Term>
ATALLA_INLINE double sum_terms(int64_t n, Term&& term) {
  using V = typename Simd<T>::V;
  constexpr int kLanes = Simd<T>::kLanes;
  constexpr int64_t kSegment = 4096;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSegment) {
    const int64_t end = n - begin < kSegment ? n : begin + kSegment;
    V acc[4] = {};
    int64_t i = begin;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) acc[k] += term(i + k * kLanes, kLanes);
    }
    for (; i + kLanes <= end; i += kLanes) acc[0] += term(i, kLanes);
    if (i < end) acc[1] += term(i, static_cast<int>(end - i));
    total += add_lanes<T>(acc);
  }
  return total;
}

// The largest element of a run that is not empty; NaN is passed over.
template <class T>
inline T max_of(const T* x, int64_t n) {
  using V = typename Simd<T>::V;
  constexpr int kLanes = Simd<T>::kLanes;
  V acc[4];
  for (V& a : acc) a = splat<T>(-__builtin_inf());
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const V v = load_vector(x + i + k * kLanes);
      acc[k] = v > acc[k] ? v : acc[k];
    }
  }
  for (; i < n; i += kLanes) {
    const V v = i + kLanes <= n ? load_vector(x + i) : load_partial<T>(x + i, n - i, -__builtin_inf());
    acc[0] = v > acc[0] ? v : acc[0];
  }
  acc[0] = acc[0] > acc[1] ? acc[0] : acc[1];
  acc[2] = acc[2] > acc[3] ? acc[2] : acc[3];
  T lanes[kLanes];
  store_vector(lanes, acc[0] > acc[2] ? acc[0] : acc[2]);
  return fold(lanes, kLanes, [](T a, T b) { return a > b ? a : b; });
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
