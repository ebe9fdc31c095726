// SPDX-License-Identifier: BSD-3-Clause
//
// Packing: a strided matrix of any dtype becomes a row-major matrix of the arithmetic type. Both operands of the
// micro-kernel are such matrices: A panels are rows of consecutive k, B panels are rows of kPanel consecutive n.
#pragma once

#include "sim/kernels/matrix/gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {

// A matrix in memory; strides in elements.
struct MatrixView {
  const char* data = nullptr;
  atalla_dtype dtype = ATALLA_F32;
  int64_t row_stride = 0;
  int64_t col_stride = 0;
  int64_t item = 4;

  const char* at(int64_t row, int64_t col) const { return data + (row * row_stride + col * col_stride) * item; }
  MatrixView transposed() const { return {data, dtype, col_stride, row_stride, item}; }
};

// dst[r * ld + c] = src[r, c] for r < rows, c < cols, where consecutive rows (not columns) are adjacent in memory.
template <class T>
[[gnu::noinline]] void pack_transposed(const MatrixView& src, int64_t rows, int64_t cols, T* dst, int64_t ld) {
  constexpr int lanes = kLanes<T>;
  T column[lanes];
  for (int64_t c = 0; c < cols; c += lanes) {
    const int64_t width = min_of(lanes, cols - c);
    int64_t r = 0;
    if (width == lanes) {
      for (; r + lanes <= rows; r += lanes) {
        Vec<T> square[lanes];
        if (src.dtype == kNativeOf<T>) {
#pragma GCC unroll 16
          for (int i = 0; i < lanes; ++i) square[i] = load_vector(reinterpret_cast<const T*>(src.at(r, c + i)));
        } else {
          for (int i = 0; i < lanes; ++i) {
            load_run(src.at(r, c + i), src.dtype, 1, lanes, column);
            square[i] = load_vector(column);
          }
        }
        transpose_square<T>(square);
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) store_vector(dst + (r + i) * ld + c, square[i]);
      }
    }
    for (; r < rows; r += lanes) {
      const int64_t height = min_of(lanes, rows - r);
      for (int64_t i = 0; i < width; ++i) {
        load_run(src.at(r, c + i), src.dtype, 1, height, column);
        for (int64_t j = 0; j < height; ++j) dst[(r + j) * ld + c + i] = column[j];
      }
    }
    // `width < lanes` above runs the whole height of this strip column by column.
  }
}

// Copies rows of the arithmetic type. The next rows are asked for early: they lie on other pages, where the hardware
// prefetcher does not follow.
template <class T>
inline void copy_rows(const MatrixView& src, int64_t rows, int64_t cols, T* dst, int64_t ld) {
  constexpr int64_t ahead = 4, lanes = kLanes<T>;
  const T* in = reinterpret_cast<const T*>(src.data);
  for (int64_t r = 0; r < rows; ++r, in += src.row_stride, dst += ld) {
    const T* next = in + ahead * src.row_stride;
    int64_t c = 0;
    for (; c + lanes <= cols; c += lanes) {
      if (r + ahead < rows) __builtin_prefetch(next + c);
      store_vector(dst + c, load_vector(in + c));
    }
    for (; c < cols; ++c) dst[c] = in[c];
  }
}

// Full panels of B, [panels][rows][kPanel], from rows of the arithmetic type: read row by row, as they lie in memory.
template <class T>
inline void copy_panels(const MatrixView& src, int64_t rows, int64_t panels, T* dst) {
  constexpr int64_t panel = kPanel<T>, lanes = kLanes<T>;
  for (int64_t r = 0; r < rows; ++r) {
    const T* in = reinterpret_cast<const T*>(src.at(r, 0));
    T* out = dst + r * panel;
    for (int64_t q = 0; q < panels; ++q, in += panel, out += rows * panel) {
      for (int v = 0; v < kMaxVectors; ++v) store_vector(out + v * lanes, load_vector(in + v * lanes));
    }
  }
}

// dst[r * ld + c] = src[r, c]; columns cols .. padded are set to zero.
template <class T>
[[gnu::noinline]] void pack_matrix(const MatrixView& src, int64_t rows, int64_t cols, int64_t padded, T* dst,
                                   int64_t ld) {
  if (src.col_stride != 1 && src.row_stride == 1 && rows > 1) {
    pack_transposed(src, rows, cols, dst, ld);
  } else if (src.col_stride == 1 && src.dtype == kNativeOf<T>) {
    copy_rows(src, rows, cols, dst, ld);
  } else {
    for (int64_t r = 0; r < rows; ++r) load_run(src.at(r, 0), src.dtype, src.col_stride, cols, dst + r * ld);
  }
  for (int64_t r = 0; padded > cols && r < rows; ++r) {
    for (int64_t c = cols; c < padded; ++c) dst[r * ld + c] = T(0);
  }
}

}  // namespace atalla::sim::ATALLA_ISA
