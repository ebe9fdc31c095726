// SPDX-License-Identifier: BSD-3-Clause
//
// Row vector times matrix. Every element of B is used once, so the work is to read B at memory speed in the order in
// which it lies, without packing: rows of B are added up when n is contiguous, columns are dotted when k is.
#pragma once

#include "sim/kernels/matrix/gemm_block.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int64_t kVectorColumns = 1024;  // accumulators of a pass: they stay in L1

// `count` consecutive values from (row, col) along a unit-stride dimension, converted into `line` when need be.
template <class T>
inline const T* strip_of(const MatrixView& view, int64_t row, int64_t col, int64_t count, T* line) {
  if (view.dtype == kNativeOf<T>) return reinterpret_cast<const T*>(view.at(row, col));
  load_run(view.at(row, col), view.dtype, 1, count, line);
  return line;
}

// acc[j] += x[p] * b[p, j] in ascending p, over `count` columns from j0.
template <class T>
inline void accumulate_rows(const MatrixProduct<T>& g, const T* x, int64_t j0, int64_t count, T* acc) {
  constexpr int lanes = kLanes<T>;
  T lines[4][kVectorColumns];
  for (int64_t j = 0; j < count; ++j) acc[j] = T(0);
  for (int64_t p = 0; p < g.k; p += 4) {
    const int64_t rows = min_of(4, g.k - p);
    const T* row[4];
    for (int64_t i = 0; i < 4; ++i) row[i] = i < rows ? strip_of(g.b, p + i, j0, count, lines[i]) : nullptr;
    int64_t j = 0;
    if (rows == 4) {
      const Vec<T> x0 = broadcast<T>(x[p]), x1 = broadcast<T>(x[p + 1]);
      const Vec<T> x2 = broadcast<T>(x[p + 2]), x3 = broadcast<T>(x[p + 3]);
      for (; j + lanes <= count; j += lanes) {
        Vec<T> s = load_vector(acc + j);
        s = multiply_add<T>(x0, load_vector(row[0] + j), s);
        s = multiply_add<T>(x1, load_vector(row[1] + j), s);
        s = multiply_add<T>(x2, load_vector(row[2] + j), s);
        s = multiply_add<T>(x3, load_vector(row[3] + j), s);
        store_vector(acc + j, s);
      }
    }
    for (; j < count; j += lanes) {
      const int64_t some = min_of(lanes, count - j);
      Vec<T> s = load_some(acc + j, some);
      for (int64_t i = 0; i < rows; ++i) s = multiply_add<T>(broadcast<T>(x[p + i]), load_some(row[i] + j, some), s);
      store_some(acc + j, s, some);
    }
  }
}

// Dot products of x with C columns, `apart` from each other, from j0; k is contiguous.
template <class T, int C>
inline void dot_columns(const MatrixProduct<T>& g, const T* x, int64_t j0, int64_t apart, T* out) {
  constexpr int lanes = kLanes<T>;
  Vec<T> acc[C] = {};
  T lines[C][kVectorColumns / 8];
  for (int64_t p0 = 0; p0 < g.k; p0 += kVectorColumns / 8) {
    const int64_t count = min_of(kVectorColumns / 8, g.k - p0);
    const T* column[C];
    for (int c = 0; c < C; ++c) column[c] = strip_of(g.b, p0, j0 + c * apart, count, lines[c]);
    int64_t p = 0;
    for (; p + lanes <= count; p += lanes) {
      const Vec<T> xv = load_vector(x + p0 + p);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[c] = multiply_add<T>(xv, load_vector(column[c] + p), acc[c]);
    }
    if (p < count) {
      const Vec<T> xv = load_some(x + p0 + p, count - p);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[c] = multiply_add<T>(xv, load_some(column[c] + p, count - p), acc[c]);
    }
  }
  for (int c = 0; c < C; ++c) out[c * apart] = sum_of_lanes<T>(acc[c]);
}

// Whether multiply_vector takes this product.
template <class T>
inline bool is_vector_product(const MatrixProduct<T>& g) {
  return g.m == 1 && g.k > 0 && (g.b.col_stride == 1 || g.b.row_stride == 1 || g.n == 1);
}

// out[0, j0 .. j1) for m == 1. False when there is no memory.
template <class T>
bool multiply_vector(const MatrixProduct<T>& g, int64_t j0, int64_t j1) {
  const T* x = reinterpret_cast<const T*>(g.a.data);
  if (g.a.dtype != kNativeOf<T> || (g.a.col_stride != 1 && g.k > 1)) {
    T* line = scratch<T>(ScratchSlot::PackedA, g.k);
    if (line == nullptr) return false;
    load_run(g.a.data, g.a.dtype, g.a.col_stride, g.k, line);
    x = line;
  }
  // A single column is contiguous in k only if its stride says so; rows of one element always are.
  const bool by_rows = g.b.col_stride == 1 || g.b.row_stride != 1;
  alignas(64) T acc[kVectorColumns + kPanel<T>];
  for (int64_t j = j0; j < j1; j += kVectorColumns) {
    const int64_t count = min_of(kVectorColumns, j1 - j);
    if (by_rows && !(g.n == 1 && g.b.row_stride == 1)) {
      accumulate_rows(g, x, j, count, acc);
    } else {
      // Each of the columns read side by side goes on where it ended: long runs, no more than the host reads ahead.
      constexpr int kRuns = 6;
      const int64_t length = count / kRuns;
      for (int64_t c = 0; c < length; ++c) dot_columns<T, kRuns>(g, x, j + c, length, acc + c);
      for (int64_t c = length * kRuns; c < count; ++c) dot_columns<T, 1>(g, x, j + c, 0, acc + c);
    }
    for (int64_t c = 0; c < count; c += kPanel<T>) {
      g.epilogue.apply(acc + c, 1, min_of(kPanel<T>, count - c), 0, j + c, {true, true}, acc + c, 0);
    }
  }
  return true;
}

}  // namespace atalla::sim::ATALLA_ISA
