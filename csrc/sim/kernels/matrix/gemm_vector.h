// SPDX-License-Identifier: BSD-3-Clause
//
// The blocks of vectors in which the matrix kernels compute: a tile of rows by a panel of columns, held in registers.
#pragma once

#include "sim/kernels/base/operand.h"
#include "sim/kernels/base/vector.h"

namespace atalla::sim::ATALLA_ISA {

#if defined(__AVX512F__)
inline constexpr int kMaxRows = 14;  // 14 x 2 accumulators + 2 of B + 1 broadcast = 31 of 32 registers
#else
inline constexpr int kMaxRows = 6;  // 6 x 2 accumulators + 2 + 1 = 15 of 16 registers
#endif
inline constexpr int kMaxVectors = 2;  // vectors of a full B panel

// Columns of a full B panel.
template <class T>
inline constexpr int kPanel = kMaxVectors * kLanes<T>;

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
