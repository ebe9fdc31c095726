// SPDX-License-Identifier: BSD-3-Clause
//
// The register-blocked inner product: a tile of R rows by V vectors of columns stays in registers while k runs.
//
// The operands are row-major: element (r, p) of A stands at a[r * lda + p], row p of B at b[p * ldb]. So an A whose k
// is contiguous, and a B whose n is, can be read in place as well as packed. Whole vectors of the tile are written,
// with row stride ldt: to the output itself when it takes them as they are, else to a small buffer for the epilogue.
//
// Order of additions of one element: p ascending, one accumulator. It depends on nothing else, so a result is the same
// in any tile, at any position and with any number of threads.
//
// The kernels are compiled once, in gemm_micro.cpp. gemm_pairs.h has those of narrow operands.
#pragma once

#include "sim/kernels/matrix/gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {

template <class T>
using MicroKernel = void (*)(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* tile, int64_t ldt);

// The same for a B whose row p stands at b + rows[p]: the shifted rows of an image.
template <class T>
using ShiftedKernel = void (*)(int64_t k, const T* a, int64_t lda, const T* b, const int32_t* rows, T* tile,
                               int64_t ldt);

// By vectors of columns, then by rows.
template <class T>
struct MicroKernelTable {
  MicroKernel<T> entries[kMaxVectors][kMaxRows];
  ShiftedKernel<T> shifted[kMaxVectors][kMaxRows];
};

extern const MicroKernelTable<float> kMicroKernelsF32;
extern const MicroKernelTable<double> kMicroKernelsF64;
extern const MicroKernelTable<uint32_t> kMicroKernelsU32;
extern const MicroKernelTable<uint64_t> kMicroKernelsU64;

template <class T>
inline const MicroKernelTable<T>& micro_kernels() {
  if constexpr (std::is_same_v<T, float>) {
    return kMicroKernelsF32;
  } else if constexpr (std::is_same_v<T, double>) {
    return kMicroKernelsF64;
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    return kMicroKernelsU32;
  } else {
    return kMicroKernelsU64;
  }
}

// The kernel for `rows` rows (1 .. kMaxRows) and `columns` columns (1 .. kPanel, rounded up to whole vectors).
template <class T>
inline MicroKernel<T> select_micro_kernel(int64_t rows, int64_t columns) {
  static_assert(kMaxVectors == 2);
  return micro_kernels<T>().entries[columns <= kLanes<T> ? 0 : 1][rows - 1];
}
template <class T>
inline ShiftedKernel<T> select_shifted_kernel(int64_t rows, int64_t columns) {
  return micro_kernels<T>().shifted[columns <= kLanes<T> ? 0 : 1][rows - 1];
}

}  // namespace atalla::sim::ATALLA_ISA
