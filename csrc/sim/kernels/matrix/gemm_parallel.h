// SPDX-License-Identifier: BSD-3-Clause
//
// Cuts a matrix product into ranges of columns or rows for the thread pool. Every range is computed on its own, with
// its own packing, so a product needs one parallel section and no barrier. k is never cut: results do not depend on
// threads.
#pragma once

#include "sim/kernels/matrix/gemm_vector_matrix.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int64_t kSerialWork = 1 << 18;  // multiply-adds below which a second thread does not pay
inline constexpr int64_t kTransposedRows = 64;   // see orient()
inline constexpr int64_t kFewPairs = 8;          // rows that fill too little of the vectors of pairs (gemm_pairs.h)

// Chooses between out = a b and out' = b' a', which sum in the same order:
// - the output's rows should be contiguous,
// - a single column is a row of the transposed product,
// - with few rows and a B whose k is contiguous (the weight of a linear layer), the transposed product reads the big
//   operand in place and packs the small one.
// True: the latter.
template <class T>
inline bool orient(MatrixProduct<T>& g) {
  const bool column_major_out = g.epilogue.out.col_stride != 1 && g.epilogue.out.row_stride == 1 && g.m > 1;
  const bool linear =
      g.m > 1 && g.m <= kTransposedRows && g.n > g.m && g.b.row_stride == 1 && g.b.col_stride != 1 &&
      (g.b.dtype == kNativeOf<T> || (g.m > kFewPairs && pair_kernels_of<T>(g.a.dtype, g.b.dtype) != nullptr));
  const bool swap = g.m == 1 ? false : g.n == 1 || column_major_out || linear;
  if (!swap) return false;
  const MatrixView a = g.a;
  g.a = g.b.transposed();
  g.b = a.transposed();
  g.epilogue.out = g.epilogue.out.transposed();
  g.epilogue.c = g.epilogue.c.transposed();
  const int64_t m = g.m;
  g.m = g.n;
  g.n = m;
  return true;
}

// Computes the product on the pool (or on the calling thread, when small or inside a parallel section). False when
// there is no memory for packing buffers. `then(i0, i1, j0, j1)` follows each part of the output once it stands there,
// on the thread that computed it, and may fail likewise.
template <class T, class Then>
bool multiply(MatrixProduct<T> g, const Then& then) {
  const bool turned = orient(g);
  const auto part = [&](int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
    return turned ? then(j0, j1, i0, i1) : then(i0, i1, j0, j1);
  };
  if (is_vector_product(g)) {
    const auto columns = [&](int64_t begin, int64_t end) {
      return multiply_vector(g, begin, end) && part(0, 1, begin, end);
    };
    const int64_t grain = round_up(max_of(1, kSerialWork / 4 / g.k), kPanel<T>);
    return g.n <= grain ? columns(0, g.n) : parallel_try(g.n, grain, columns);
  }
  const auto block = [&](int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
    return multiply_block(g, i0, i1, j0, j1) && part(i0, i1, j0, j1);
  };
  if (g.m * g.n * g.k <= kSerialWork) return block(0, g.m, 0, g.n);
  const bool by_columns = g.n >= g.m;
  const int64_t length = by_columns ? g.n : g.m;
  const int64_t other = by_columns ? g.m : g.n;
  const int64_t unit = by_columns ? kPanel<T> : kMaxRows;
  const int64_t grain = unit * max_of(1, ceil_div(kSerialWork, other * g.k * unit));
  return parallel_try(length, grain, [&](int64_t begin, int64_t end) {
    return by_columns ? block(0, g.m, begin, end) : block(begin, end, 0, g.n);
  });
}

template <class T>
bool multiply(const MatrixProduct<T>& g) {
  return multiply(g, [](int64_t, int64_t, int64_t, int64_t) { return true; });
}

// run(i) of `batches` products of `work` multiply-adds each, in parallel unless they divide well enough themselves.
// False if any is.
template <class F>
bool multiply_batches(int64_t batches, int64_t work, const F& run) {
  const auto some = [&](int64_t begin, int64_t end) {
    bool ok = true;
    for (int64_t i = begin; i < end; ++i) ok = run(i) && ok;
    return ok;
  };
  if (batches == 1 || (batches < 8 && work > 16 * kSerialWork)) return some(0, batches);
  return parallel_try(batches, max_of(1, kSerialWork / work), some);
}

}  // namespace atalla::sim::ATALLA_ISA
