// SPDX-License-Identifier: BSD-3-Clause
//
// Products of narrow operands, whose micro-kernels take two values of k in one step: BF16 with the host's dot products
// (AVX512_BF16), and bytes with its products of 16 bits. A pair is a 32-bit element of the packed operands, with the
// first value of k in the upper half. Of signed bytes, they take four (AVX512_VNNI), whose first is in the lowest byte.
// That instruction wants one operand without a sign: rows of A have 128 added to each value, and the first row of a
// packed panel of B is what the sums begin with, -128 times those of its columns.
//
// The results are the bits of the micro-kernels that take one value at a time. A dot product of BF16 adds the product
// of the upper halves to a sum, rounds, adds that of the lower halves, and rounds (Intel's manual of the instruction
// set, VDPBF16PS). But it takes subnormal numbers for zeros. So a block with values whose products or sums may be
// subnormal, or with NaN, is packed again for the other kernels. Sums of integers do not depend on the order.
#pragma once

#include "sim/kernels/matrix/gemm_micro.h"
#include "sim/kernels/matrix/gemm_pack.h"

namespace atalla::sim::ATALLA_ISA {

// By vectors of columns, then by rows; null: the host has no such instructions.
template <class T>
struct PairKernelTable {
  MicroKernel<T> entries[kMaxVectors][kMaxRows];
  int64_t values;  // of k in a step
};
const PairKernelTable<float>* pair_kernels_f32();
const PairKernelTable<uint32_t>* pair_kernels_u32();
const PairKernelTable<uint32_t>* quad_kernels_u32();  // of signed bytes

template <class T>
inline const PairKernelTable<T>* pair_kernels() {
  if constexpr (std::is_same_v<T, float>) return pair_kernels_f32();
  else if constexpr (std::is_same_v<T, uint32_t>) return pair_kernels_u32();
  else return nullptr;
}

// The kernels for operands of these dtypes, or null.
template <class T>
inline const PairKernelTable<T>* pair_kernels_of(atalla_dtype a, atalla_dtype b) {
  const auto is_byte = [](atalla_dtype dtype) { return dtype == ATALLA_I8 || dtype == ATALLA_U8; };
  const bool narrow = std::is_same_v<T, float> ? a == ATALLA_BF16 && b == ATALLA_BF16 : is_byte(a) && is_byte(b);
  if constexpr (std::is_same_v<T, uint32_t>) {
    if (a == ATALLA_I8 && b == ATALLA_I8 && quad_kernels_u32() != nullptr) return quad_kernels_u32();
  }
  return narrow ? pair_kernels<T>() : nullptr;
}

// Packs `rows` rows of A, ld apart, or a panel of B [(k + 1) / 2][kPanel] of `columns` columns and zeros; the last pair
// of an odd k gets a zero. False: a value is not fit for the kernels.
bool pack_pair_rows(const MatrixView& a, int64_t rows, int64_t k, float* dst, int64_t ld);
bool pack_pair_rows(const MatrixView& a, int64_t rows, int64_t k, uint32_t* dst, int64_t ld);
bool pack_pair_panel(const MatrixView& b, int64_t k, int64_t columns, float* dst);
bool pack_pair_panel(const MatrixView& b, int64_t k, int64_t columns, uint32_t* dst);
// The same for quads; a panel is [1 + (k + 3) / 4][kPanel], and a k that leaves no room for that in [k][kPanel] is
// unfit.
void pack_quad_rows(const MatrixView& a, int64_t rows, int64_t k, uint32_t* dst, int64_t ld);
bool pack_quad_panel(const MatrixView& b, int64_t k, int64_t columns, uint32_t* dst);

}  // namespace atalla::sim::ATALLA_ISA
