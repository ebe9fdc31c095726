// SPDX-License-Identifier: BSD-3-Clause
//
// One row of the online softmax: the running maximum m and sum of exp(x - m) over the keys seen so far. When a tile of
// keys raises the maximum, what was accumulated before is scaled by exp(m_old - m_new).
//
// Rows are padded to whole panels with -inf, so that every element takes the same vector code wherever it stands.
#pragma once

#include "sim/kernels/matrix/gemm_activation.h"

namespace atalla::sim::ATALLA_ISA {

template <class T>
inline constexpr T kInfinity = static_cast<T>(__builtin_inf());
// exp of less than this is below the smallest normal number; against a sum of at least 1 it is nothing.
template <class T>
inline constexpr T kLowestExponent = sizeof(T) == 4 ? T(-87) : T(-708);

inline constexpr int64_t kMaxPaddedKeys = 256;

template <class T>
struct RunningRow {
  T maximum = -kInfinity<T>;
  T sum = T(0);
};

// x[0 .. padded) holds scores with -inf where nothing is attended to; padded is a multiple of kPanel, at most
// kMaxPaddedKeys. On return x holds exp(x - maximum); the result is the factor for what was accumulated before.
template <class T>
inline T accumulate_softmax(T* x, int64_t padded, RunningRow<T>& row) {
  constexpr int lanes = kLanes<T>;
  Vec<T> top = load_vector(x);
  for (int64_t i = lanes; i < padded; i += lanes) {
    const Vec<T> v = load_vector(x + i);
    top = v > top ? v : top;
  }
  T parts[lanes];
  store_vector(parts, top);
  T maximum = row.maximum;
  for (int i = 0; i < lanes; ++i) maximum = parts[i] > maximum ? parts[i] : maximum;
  // No finite score yet: keep the exponents finite. A NaN score is no maximum, but makes the sum NaN below.
  const T shift = maximum == -kInfinity<T> ? T(0) : maximum;

  // In three loops: in one, GCC sees that what is clamped is not needed, drops the clamp, and then the vector function
  // leaves every masked element to the scalar one.
  T exponents[kMaxPaddedKeys];
  for (int64_t i = 0; i < padded; ++i) {
    const T d = x[i] - shift;
    x[i] = d;
    exponents[i] = d < kLowestExponent<T> ? kLowestExponent<T> : d;
  }
  for (int64_t i = 0; i < padded; ++i) exponents[i] = exp_of(exponents[i]);
  for (int64_t i = 0; i < padded; ++i) x[i] = x[i] < kLowestExponent<T> ? T(0) : exponents[i];

  Vec<T> total = load_vector(x);
  for (int64_t i = lanes; i < padded; i += lanes) total += load_vector(x + i);
  const T decay = row.maximum - shift;
  const T factor = row.sum == T(0) || decay < kLowestExponent<T> ? T(0) : exp_of(decay);
  row.sum = row.sum * factor + sum_of_lanes<T>(total);
  row.maximum = maximum;
  return factor;
}

}  // namespace atalla::sim::ATALLA_ISA
