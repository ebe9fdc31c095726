// SPDX-License-Identifier: BSD-3-Clause
//
// The blocks of vectors in which the matrix kernels compute: a tile of rows by a panel of columns, held in registers.
#pragma once

#include "sim/kernels/base/common.h"
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

// Rows of A, of which each step of k takes an element. One pointer for three rows: the other two are reached by x86's
// base + index * {1, 2} addressing.
template <class T, int R>
class RowCursor {
 public:
  ATALLA_INLINE RowCursor(const T* a, int64_t lda) : lda_(lda) {
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) row_[g] = a + 3 * g * lda;
  }
  ATALLA_INLINE T operator()(int r) const { return row_[r / 3][(r % 3) * lda_]; }
  ATALLA_INLINE void next() {
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) ++row_[g];
  }

 private:
  static constexpr int kGroups = (R + 2) / 3;
  const T* row_[kGroups];
  int64_t lda_;
};

// Sums of R rows by V vectors of columns, in registers.
template <class T, int R, int V>
struct RegisterTile {
  Vec<T> sums[R][V];

  ATALLA_INLINE RegisterTile() {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = Vec<T>{};
    }
  }
  // Adds the products of x(r) with a row of B to row r.
  template <class X>
  ATALLA_INLINE void add(const T* b, const X& x) {
    Vec<T> column[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) column[v] = load_vector(b + v * kLanes<T>);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec<T> factor = broadcast<T>(x(r));
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = multiply_add<T>(factor, column[v], sums[r][v]);
    }
  }
  // Adds what `addend` has, if it is not null, and stores whole vectors.
  ATALLA_INLINE void store(T* out, int64_t ldo, const T* addend, int64_t ld_addend) const {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        Vec<T> x = sums[r][v];
        if (addend != nullptr) x = x + load_vector(addend + v * kLanes<T>);
        store_vector(out + v * kLanes<T>, x);
      }
      out += ldo;
      if (addend != nullptr) addend += ld_addend;
    }
  }
};

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
