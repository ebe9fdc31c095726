// SPDX-License-Identifier: BSD-3-Clause
//
// What happens to a tile of accumulators: out = act(beta * c + alpha * acc), converted and stored.
//
// When k is cut into chunks, alpha * acc of each chunk is added to a partial sum, which the first chunk starts with
// beta * c: so c is read before anything is written over it, and out may be c.
#pragma once

#include "sim/kernels/matrix/gemm_activation.h"
#include "sim/kernels/matrix/gemm_pack.h"

namespace atalla::sim::ATALLA_ISA {

// Column c of a tile [rows][ld] becomes the run of `rows` elements at out + c * stride. Squares of vectors are
// transposed in registers; the tile is read up to a whole square.
template <class T>
inline void store_transposed(const T* tile, int64_t rows, int64_t cols, int64_t ld, T* out, int64_t stride) {
  constexpr int64_t lanes = kLanes<T>;
  for (int64_t r = 0; r < rows; r += lanes) {
    const int64_t count = min_of(lanes, rows - r);
    for (int64_t c = 0; c < cols; c += lanes) {
      Vec<T> square[lanes];
#pragma GCC unroll 16
      for (int64_t i = 0; i < lanes; ++i) square[i] = load_vector(tile + (r + i) * ld + c);
      transpose_square<T>(square);
      T* to = out + c * stride + r;
      if (cols - c >= lanes) {  // with indices that the compiler knows, the square stays in registers
#pragma GCC unroll 16
        for (int64_t i = 0; i < lanes; ++i, to += stride) store_some(to, square[i], count);
      } else {
        for (int64_t i = 0; i < cols - c; ++i, to += stride) store_some(to, square[i], count);
      }
    }
  }
}

// Where in the sum over k a tile stands.
struct Chunk {
  bool first = true;
  bool last = true;
};

template <class T>
struct Epilogue {
  T alpha = T(1);
  T beta = T(0);
  Activation activation = Activation::kNone;
  atalla_dtype compute_dtype = kNativeOf<T>;
  MatrixView out;  // written through; the const of MatrixView is the reader's
  MatrixView c;    // data is null when absent or when beta is 0

  // Partial sums can stay in the output itself.
  bool keeps_partials_in_out() const { return out.dtype == kNativeOf<T> && out.col_stride == 1; }

  T* out_row(int64_t row, int64_t col) const { return reinterpret_cast<T*>(const_cast<char*>(out.at(row, col))); }

  // A full tile of a product without chunks may be written to the output by the micro-kernel.
  bool stores_directly() const { return keeps_partials_in_out() && is_plain() && c.data == nullptr && alpha == T(1); }

  // Asks for the cache lines of a tile while the micro-kernel still computes it.
  void prefetch(int64_t rows, int64_t row, int64_t col) const {
    for (int64_t r = 0; r < rows; ++r) {
      for (int v = 0; v < kMaxVectors; ++v) {
        __builtin_prefetch(out.at(row + r, col + v * kLanes<T>), 1);
      }
    }
  }

  // The tile at [row, col] of the output: `rows` x `cols` accumulators with row stride kPanel. `partial` points to the
  // partial sum of its first element.
  [[gnu::noinline]] void apply(const T* tile, int64_t rows, int64_t cols, int64_t row, int64_t col, Chunk chunk,
                               T* partial, int64_t partial_stride) const {
    constexpr int lanes = kLanes<T>;
    const bool to_memory = !chunk.last || (keeps_partials_in_out() && is_plain());
    const bool turned = !to_memory && stores_columns();
    constexpr int kSquares = (kMaxRows + lanes - 1) / lanes * lanes;  // rows of whole squares
    alignas(64) T lines[kSquares * kPanel<T>];
    for (int64_t r = 0; r < rows; ++r, tile += kPanel<T>, partial += partial_stride) {
      T* const line = lines + (turned ? r * kPanel<T> : 0);
      T* target = chunk.last ? (to_memory ? out_row(row + r, col) : line) : partial;
      T c_line[kPanel<T>];
      const T* addend = nullptr;
      if (!chunk.first) {
        addend = partial;
      } else if (c.data != nullptr) {
        addend = load_c(row + r, col, cols, c_line);
      }
#pragma GCC unroll 2
      for (int v = 0; v < kMaxVectors; ++v) {
        const int64_t count = min_of(lanes, cols - v * lanes);
        if (count <= 0) break;
        Vec<T> x = load_vector(tile + v * lanes);
        if (alpha != T(1)) x = x * alpha;
        if (addend != nullptr) {
          Vec<T> y = count == lanes ? load_vector(addend + v * lanes) : load_some(addend + v * lanes, count);
          if (chunk.first && beta != T(1)) y = y * beta;
          x = x + y;
        }
        if (!to_memory || count == lanes) {
          store_vector(target + v * lanes, x);
        } else {
          store_some(target + v * lanes, x, count);
        }
      }
      if (to_memory) continue;
      finish(line, cols);
      if (!turned) store_run(line, cols, const_cast<char*>(out.at(row + r, col)), out.dtype, out.col_stride);
    }
    if (turned) store_columns(lines, rows, cols, row, col);
  }

 private:
  // No function and no wrapping between the sum and the store.
  bool is_plain() const {
    return activation == Activation::kNone && (std::is_floating_point_v<T> || compute_dtype == kNativeOf<T>);
  }

  const T* load_c(int64_t row, int64_t col, int64_t cols, T* line) const {
    if (c.dtype == kNativeOf<T>) {
      const T* p = reinterpret_cast<const T*>(c.at(row, col));
      if (c.col_stride == 1) return p;
      if (c.col_stride == 0) {
        for (int v = 0; v < kMaxVectors; ++v) store_vector(line + v * kLanes<T>, broadcast<T>(*p));
        return line;
      }
    }
    load_run(c.at(row, col), c.dtype, c.col_stride, cols, line);
    return line;
  }

  // The output's columns are what is contiguous, as that of a product which orient() turned.
  bool stores_columns() const {
    return std::is_floating_point_v<T> && out.dtype == kNativeOf<T> && out.row_stride == 1;
  }

  // Its columns are stored whole.
  [[gnu::noinline]] void store_columns(T* lines, int64_t rows, int64_t cols, int64_t row, int64_t col) const {
    constexpr int64_t lanes = kLanes<T>;
    for (int64_t i = rows * kPanel<T>; i < round_up(rows, lanes) * kPanel<T>; i += lanes)
      store_vector(lines + i, Vec<T>{});
    store_transposed(lines, rows, cols, kPanel<T>, out_row(row, col), out.col_stride);
  }

  [[gnu::noinline]] void finish(T* line, int64_t cols) const {
    if constexpr (std::is_integral_v<T>) wrap(line, cols);
    if (activation != Activation::kNone) {
      for (int64_t i = cols; i < kPanel<T>; ++i) line[i] = T(0);
      apply_activation(line, activation);
    }
  }

  void wrap(T* line, int64_t cols) const {
    using S = std::make_signed_t<T>;
    for (int64_t i = 0; i < cols; ++i) {
      switch (compute_dtype) {
        case ATALLA_BOOL:
          line[i] = line[i] != 0;
          break;
        case ATALLA_U8:
          line[i] = static_cast<uint8_t>(line[i]);
          break;
        case ATALLA_I8:
          line[i] = static_cast<T>(static_cast<S>(static_cast<int8_t>(line[i])));
          break;
        case ATALLA_I16:
          line[i] = static_cast<T>(static_cast<S>(static_cast<int16_t>(line[i])));
          break;
        default:
          break;
      }
    }
  }
};

}  // namespace atalla::sim::ATALLA_ISA
