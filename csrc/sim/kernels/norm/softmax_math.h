// SPDX-License-Identifier: BSD-3-Clause
//
// Vector arithmetic of the row kernels: the exponential of non-positive numbers, and reductions over a run. A run's
// last, partial vector is filled up, so that every element takes the same path and a result depends on the values and
// their count alone.
#pragma once

#include "sim/kernels/base/vector.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Bits is an unsigned integer as wide as T. kRound is 1.5 * 2^(fraction bits): adding it rounds to an integer and
// leaves that integer in the low bits. kLn2High has so many trailing zeros that its product with an exponent is exact
// (Cody and Waite, Software Manual for the Elementary Functions, 1980).
template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  using Bits = uint32_t;
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
struct ExpConstants<double> {
  using Bits = uint64_t;
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

// e^x for x <= 0, -inf or NaN, about 1 ulp, gradual underflow included: x = n ln2 + r, |r| <= ln2 / 2, e^r by its
// Taylor polynomial, and 2^n in two factors so that a subnormal result is rounded once.
template <class T>
ATALLA_INLINE Vec<T> exp_nonpositive(Vec<T> x) {
  using S = ExpConstants<T>;
  using V = Vec<T>;
  using U = Vec<typename S::Bits>;
  const auto vanishes = x < S::kUnderflow;
  x = vanishes ? broadcast<T>(S::kUnderflow) : x;
  const V shifted = multiply_add<T>(x, broadcast<T>(S::kLog2e), broadcast<T>(S::kRound));
  const V n = shifted - S::kRound;
  V r = multiply_add<T>(n, broadcast<T>(-S::kLn2High), x);
  r = multiply_add<T>(n, broadcast<T>(-S::kLn2Low), r);
  constexpr double kFactorial[] = {1,    1,     2,      6,       24,       120,       720,
                                   5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800};
  V p = broadcast<T>(static_cast<T>(1 / kFactorial[S::kDegree]));
#pragma GCC unroll 16
  for (int k = S::kDegree - 1; k >= 0; --k) p = multiply_add<T>(p, r, broadcast<T>(static_cast<T>(1 / kFactorial[k])));
  p = vanishes ? V{} : p;
  // n + 2048 is positive, so that a logical shift halves it.
  const U exponent = reinterpret_cast<U>(shifted) - S::kRoundBits;
  const U half = ((exponent + 2048) >> 1) - 1024;
  const U rest = exponent - half;
  return p * reinterpret_cast<V>((half + S::kBias) << S::kFractionBits) *
         reinterpret_cast<V>((rest + S::kBias) << S::kFractionBits);
}

// Whether e^x and e^y are 0 in all lanes: each is below kUnderflow, and none is NaN.
ATALLA_INLINE bool all_vanish(Vec<float> x, Vec<float> y) {
  const auto vanish = (x < ExpConstants<float>::kUnderflow) & (y < ExpConstants<float>::kUnderflow);
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask(__builtin_bit_cast(__m512i, vanish), __builtin_bit_cast(__m512i, vanish)) == 0xffff;
#elif defined(__AVX2__)
  return _mm256_movemask_ps(__builtin_bit_cast(__m256, vanish)) == 0xff;
#else
  bool all = true;
  for (int i = 0; i < kLanes<float>; ++i) all &= vanish[i] != 0;
  return all;
#endif
}

// The lanes of four accumulators, added in double.
template <class T>
ATALLA_INLINE double add_lanes(const Vec<T>* acc) {
  T lanes[kLanes<T>];
  double wide[kLanes<T>];
  store_vector(lanes, (acc[0] + acc[1]) + (acc[2] + acc[3]));
  for (int i = 0; i < kLanes<T>; ++i) wide[i] = static_cast<double>(lanes[i]);
  return fold<kLanes<T>>(wide, [](double a, double b) { return a + b; });
}

// Sum over [0, n) of term(vector, begin, count): vectors of T in four accumulators, emptied into a double every
// kSegment elements, so that the rounding error does not grow with n. The last vector has count < kLanes; term must
// give 0 in the lanes beyond it.
template <class T, class Term>
ATALLA_INLINE double sum_terms(int64_t n, Term&& term) {
  constexpr int64_t kSegment = 4096;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSegment) {
    const int64_t end = n - begin < kSegment ? n : begin + kSegment;
    Vec<T> acc[4] = {};
    int64_t i = begin;
    for (; i + 4 * kLanes<T> <= end; i += 4 * kLanes<T>) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) acc[k] += term(i + k * kLanes<T>, kLanes<T>);
    }
    for (; i + kLanes<T> <= end; i += kLanes<T>) acc[0] += term(i, kLanes<T>);
    if (i < end) acc[1] += term(i, static_cast<int>(end - i));
    total += add_lanes<T>(acc);
  }
  return total;
}

// The largest element of a run that is not empty; NaN is passed over.
template <class T>
inline T largest_of(const T* x, int64_t n) {
  Vec<T> acc[4];
  for (Vec<T>& a : acc) a = broadcast<T>(-__builtin_inf());
  int64_t i = 0;
  for (; i + 4 * kLanes<T> <= n; i += 4 * kLanes<T>) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const Vec<T> v = load_vector(x + i + k * kLanes<T>);
      acc[k] = v > acc[k] ? v : acc[k];
    }
  }
  for (; i < n; i += kLanes<T>) {
    const Vec<T> v = i + kLanes<T> <= n ? load_vector(x + i) : load_some<T>(x + i, n - i, -__builtin_inf());
    acc[0] = v > acc[0] ? v : acc[0];
  }
  acc[0] = acc[0] > acc[1] ? acc[0] : acc[1];
  acc[2] = acc[2] > acc[3] ? acc[2] : acc[3];
  T lanes[kLanes<T>];
  store_vector(lanes, acc[0] > acc[2] ? acc[0] : acc[2]);
  return fold<kLanes<T>>(lanes, [](T a, T b) { return a > b ? a : b; });
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
