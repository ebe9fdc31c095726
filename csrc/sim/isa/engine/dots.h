// SPDX-License-Identifier: BSD-3-Clause
//
// Rows of the systolic array by the host's dot products of pairs of BF16 (AVX512_BF16), where it has them. Such an
// instruction adds the product of the upper halves to a sum, rounds, adds that of the lower halves, and rounds: two
// steps of a row's sum. It takes subnormal numbers for zeros, so that inputs, products and sums must not be subnormal
// (Weights::dots). Intel's manual of the instruction set, VDPBF16PS.
#pragma once

#include "sim/isa/engine/array.h"

namespace atalla::sim::isa::ATALLA_ISA {
namespace {

#if defined(__AVX512F__) && !defined(__clang__)
const bool has_dots = __builtin_cpu_supports("avx512bf16");

// `Rows` rows side by side; all inputs are read before anything is written. False, and nothing was done, if the host
// has no such instruction or a value is not fit for it.
template <int Rows>
[[gnu::target("avx512bf16"), gnu::noinline]] bool dot_rows(Weights& w, float (*v)[kLanes], const MicroOp* const* ops) {
  if (!has_dots || w.dots != UINT64_MAX) return false;
  const uint32_t deep = ops[0]->c & 1, wide = ops[0]->c >> 1;  // of all rows
  alignas(64) uint32_t in[2][Rows][kLanes / 2];
  __m512i most = _mm512_setzero_si512();
  for (uint32_t half = 0; half <= deep; ++half) {
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
      for (int part = 0; part < 2; ++part) {
        const __m512 a = _mm512_load_ps(v[ops[i]->a + half] + 16 * part);
        // Twice the magnitude, above the least one; what is below wraps around, except zeros.
        const __m512i twice = _mm512_slli_epi32(reinterpret_cast<__m512i>(a), 1);
        const __m512i above = _mm512_maskz_sub_epi32(_mm512_test_epi32_mask(twice, twice), twice,
                                                     _mm512_set1_epi32(static_cast<int>(kLeastDot << 24)));
        most = _mm512_max_epu32(most, above);
        const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a));
        _mm256_store_si256(reinterpret_cast<__m256i*>(in[half][i] + 8 * part), _mm256_rol_epi32(rounded, 16));
      }
    }
  }
  // A value that is rounded up to an exponent that is too large is not fit either.
  const auto limit = _mm512_set1_epi32(static_cast<int>((kMostPlain - 1 - kLeastDot) << 24));
  if (_mm512_cmpge_epu32_mask(most, limit) != 0) [[unlikely]]
    return false;
  for (uint32_t n = 0; n <= wide; ++n) {
    __m512 sum[Rows][2];
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    for (uint32_t half = 0; half <= deep; ++half) {
      block(w, half, n);  // makes the pairs
#pragma GCC unroll 2
      for (int k = 0; k < kLanes / 2; ++k) {
        const auto w0 = reinterpret_cast<__m512bh>(_mm512_load_si512(w.pairs[half][n][k]));
        const auto w1 = reinterpret_cast<__m512bh>(_mm512_load_si512(w.pairs[half][n][k] + 16));
#pragma GCC unroll 8
        for (int i = 0; i < Rows; ++i) {
          const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(in[half][i][k])));
          sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, w0);
          sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, w1);
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
      for (int part = 0; part < 2; ++part) {
        const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum[i][part]));
        F out;
        out.part[0] = reinterpret_cast<N>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
        store(v[ops[i]->d + n] + 16 * part, canonical(out + load(v[ops[i]->b + n] + 16 * part)));
      }
    }
  }
  return true;
}
#else
template <int Rows>
bool dot_rows(Weights&, float (*)[kLanes], const MicroOp* const*) {
  return false;
}
#endif

// Rows that waited, in order. Those of a group are all of the same pairs (group.cpp).
[[gnu::noinline]] void rows(Weights& w, float (*v)[kLanes], const MicroOp* const* ops, unsigned count) {
  if (count == kMostRows && dot_rows<kMostRows>(w, v, ops)) return;
  for (const MicroOp* const* const end = ops + count; ops != end;) {
    if (end - ops >= 4 && (dot_rows<4>(w, v, ops) || four_rows(w, v, ops))) ops += 4;
    else row(w, v, **ops++);
  }
}

}  // namespace
}  // namespace atalla::sim::isa::ATALLA_ISA
