// SPDX-License-Identifier: BSD-3-Clause
//
// The matrix product of two tiles, on the micro-kernels of gemm. Sums run over k upward, in the dtype of the result.
#include <cstring>

#include "sim/kernels/matrix/gemm_micro.h"
#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Columns of b in whole vectors: b itself, or a copy with zeros at the end of each row.
template <class T>
bool dot(void* to, const void* from_a, const void* from_b, const void* from_acc, int64_t m, int64_t n, int64_t k) {
  T* out = static_cast<T*>(to);
  const T *a = static_cast<const T*>(from_a), *b = static_cast<const T*>(from_b);
  const T* acc = static_cast<const T*>(from_acc);
  constexpr int64_t lanes = kLanes<T>, panel = kPanel<T>;
  const int64_t width = (n + lanes - 1) / lanes * lanes;
  ScratchArray<T> padded;
  if (width != n) {
    if (!padded.allocate(width * k)) return false;
    for (int64_t p = 0; p < k; ++p) {
      std::memcpy(&padded[p * width], b + p * n, static_cast<size_t>(n) * sizeof(T));
      std::memset(&padded[p * width + n], 0, static_cast<size_t>(width - n) * sizeof(T));
    }
    b = padded.get();
  }
  alignas(64) T tile[kMaxRows * panel];
  for (int64_t j = 0; j < width; j += panel) {
    const int64_t columns = width - j < panel ? width - j : panel, kept = n - j < columns ? n - j : columns;
    for (int64_t i = 0; i < m; i += kMaxRows) {
      const int64_t rows = m - i < kMaxRows ? m - i : kMaxRows;
      select_micro_kernel<T>(rows, columns)(k, a + i * k, k, b + j, width, tile, panel);
      for (int64_t r = 0; r < rows; ++r) {
        T* row = out + (i + r) * n + j;
        const T* before = acc + (i + r) * n + j;
        for (int64_t c = 0; c < kept; ++c) row[c] = before[c] + tile[r * panel + c];
      }
    }
  }
  return true;
}

}  // namespace

TileDot tile_dot(atalla_dtype dtype) {
  switch (dtype) {
    case ATALLA_F32:
      return dot<float>;
    case ATALLA_F64:
      return dot<double>;
    case ATALLA_I32:
      return dot<uint32_t>;
    default:
      return nullptr;
  }
}

}  // namespace atalla::sim::ATALLA_ISA
