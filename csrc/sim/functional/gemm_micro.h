// SPDX-License-Identifier: BSD-3-Clause
//
// The register-blocked inner product: a tile of R rows by V vectors of columns stays in registers while k runs.
//
// The operands are row-major: element (r, p) of A stands at a[r * lda + p], row p of B at b[p * ldb]. So an A whose k is
// contiguous, and a B whose n is, can be read in place as well as packed. Whole vectors of the tile are written, with row
// stride ldt: to the output itself when it takes them as they are, else to a small buffer for the epilogue.
//
// Order of additions of one element: p ascending, one accumulator. It depends on nothing else, so a result is the same
// in any tile, at any position and with any number of threads.
//
// A future provider (AVX512_BF16, AMX) takes the place of this function for its arithmetic type.
#pragma once

#include <utility>

#include "gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {

template <class T>
using MicroKernel = void (*)(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* tile, int64_t ldt);

template <class T, int R, int V>
void micro_kernel(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* tile, int64_t ldt) {
  constexpr int lanes = kLanes<T>;
  constexpr int groups = (R + 2) / 3;
  Vec<T> acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = Vec<T>{};
  }
  // One pointer for three rows: the other two are reached by x86's base + index * {1, 2} addressing.
  const T* row[groups];
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) row[g] = a + 3 * g * lda;
  for (int64_t p = 0; p < k; ++p) {
    Vec<T> column[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) column[v] = load_vector(b + v * lanes);
    b += ldb;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec<T> x = broadcast<T>(row[r / 3][(r % 3) * lda]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = multiply_add<T>(x, column[v], acc[r][v]);
    }
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) ++row[g];
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store_vector(tile + v * lanes, acc[r][v]);
    tile += ldt;
  }
}

namespace detail {
template <class T, int V, int... R>
constexpr MicroKernel<T> micro_kernel_of(int rows, std::integer_sequence<int, R...>) {
  constexpr MicroKernel<T> table[] = {&micro_kernel<T, R + 1, V>...};
  return table[rows - 1];
}
}  // namespace detail

// The kernel for `rows` rows (1 .. kMaxRows) and `columns` columns (1 .. kPanel, rounded up to whole vectors).
template <class T>
inline MicroKernel<T> select_micro_kernel(int64_t rows, int64_t columns) {
  static constexpr auto indices = std::make_integer_sequence<int, kMaxRows>{};
  static_assert(kMaxVectors == 2);
  return columns <= kLanes<T> ? detail::micro_kernel_of<T, 1>(static_cast<int>(rows), indices)
                              : detail::micro_kernel_of<T, 2>(static_cast<int>(rows), indices);
}

}  // namespace atalla::sim::ATALLA_ISA
