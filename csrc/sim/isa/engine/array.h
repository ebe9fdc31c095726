// SPDX-License-Identifier: BSD-3-Clause
//
// The systolic array: weight pushes, and rows. out[n] is a sum over k, upward, of products rounded to FP32. The product
// of two BF16 is exact in FP32 unless it is very large or small; so a fused multiply-add, which does not round it,
// gives the same bits for "plain" values: 0, or 2^-62 <= |x| < 2^63. Others take the slow path.
#pragma once

#include "sim/isa/engine/vector.h"

namespace atalla::sim::isa::ATALLA_ISA {
namespace {

// Exponents of the least values whose products are exact, and are multiples of 2^-126 besides.
constexpr uint32_t kLeastPlain = 65, kLeastDot = 71;
constexpr uint32_t kMostPlain = 190;  // the first one that is too large

// Lanes whose products might be inexact: neither 0 nor of an exponent from `least` to below `most`. NaN is among them.
ATALLA_INLINE S not_plain(const F& x, uint32_t least, uint32_t most) {
  const U magnitude = bits(x) & 0x7FFFFFFFu;
  const S middling = magnitude - (least << 23) < every((most - least) << 23), zero = magnitude == every(0u);
  return ~(middling | zero);
}
ATALLA_INLINE bool is_plain(const F& low, const F& high, uint32_t least = kLeastPlain) {
  return lanes_of(not_plain(low, least, kMostPlain) | not_plain(high, least, kMostPlain)) == 0;
}

// A column: of the vector at `a`, or of the pair there, and zeros below what it fills.
ATALLA_INLINE void push(Weights& w, const float (*a)[kLanes], bool pair) {
  uint32_t column = w.pushes;
  if (w.pushes < kLanes) {
    ++w.pushes;
  } else {
    w.first = column = (w.first - 1) & (w.width - 1);
  }
  const F low = round_bf16(load(a[0]));
  const F high = round_bf16(load(a[0] + 16));
  store(w.columns[0][column], low);
  store(w.columns[0][column] + 16, high);
  bool plain = is_plain(low, high), dots = is_plain(low, high, kLeastDot);
  if (w.depth != kLanes) [[unlikely]] {
    const F below_low = pair ? round_bf16(load(a[1])) : every(0.0f);
    const F below_high = pair ? round_bf16(load(a[1] + 16)) : every(0.0f);
    store(w.columns[1][column], below_low);
    store(w.columns[1][column] + 16, below_high);
    plain &= is_plain(below_low, below_high);
    dots &= is_plain(below_low, below_high, kLeastDot);
  }
  const uint64_t bit = uint64_t{1} << column;
  w.plain = plain ? w.plain | bit : w.plain & ~bit;
  w.dots = dots ? w.dots | bit : w.dots & ~bit;
  w.made = 0;
  if (w.array.push != nullptr) [[unlikely]] {
    w.plain = w.dots = 0;
    w.array.push(w.array.context, a[0]);
  }
}

#if defined(__AVX512F__)
// Transposes 16 x 16: four rounds in which pairs of rows exchange halves of blocks.
ATALLA_INLINE void transpose16(const float* const* from, float* to, int to_pitch) {
  __m512 r[16];
  __m512 t[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm512_load_ps(from[i]);
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) {
      const __m512d a = _mm512_castps_pd(t[4 * i + j]);
      const __m512d b = _mm512_castps_pd(t[4 * i + j + 2]);
      r[4 * i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      r[4 * i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  }
  // r[4i + c] holds, in 128-bit part p, column 4p + c of rows 4i to 4i + 3.
  for (int c = 0; c < 4; ++c) {
    const __m512 a = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88);
    const __m512 b = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xDD);
    const __m512 d = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
    const __m512 e = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xDD);
    _mm512_store_ps(to + (0 + c) * to_pitch, _mm512_shuffle_f32x4(a, d, 0x88));
    _mm512_store_ps(to + (8 + c) * to_pitch, _mm512_shuffle_f32x4(a, d, 0xDD));
    _mm512_store_ps(to + (4 + c) * to_pitch, _mm512_shuffle_f32x4(b, e, 0x88));
    _mm512_store_ps(to + (12 + c) * to_pitch, _mm512_shuffle_f32x4(b, e, 0xDD));
  }
}
#endif

[[gnu::noinline]] void make_block(Weights& w, uint32_t half_k, uint32_t half_n) {
  w.made |= 1u << (2 * half_k + half_n);
  float (*rows)[kLanes] = w.blocks[half_k][half_n];
  const uint32_t left = half_n * kLanes;
#if defined(__AVX512F__)
  for (uint32_t n = 0; n < kLanes; n += 16) {
    for (int k = 0; k < kLanes; k += 16) {
      const float* from[16];
      for (uint32_t i = 0; i < 16; ++i) from[i] = w.column(half_k, left + n + i) + k;
      transpose16(from, rows[k] + n, kLanes);
    }
  }
#else
  for (uint32_t n = 0; n < kLanes; ++n) {
    const float* column = w.column(half_k, left + n);
    for (int k = 0; k < kLanes; ++k) rows[k][n] = column[k];
  }
#endif
  for (int k = 0; k < kLanes; k += 2) {
    for (int n = 0; n < kLanes; n += 16) {
      store(w.pairs[half_k][half_n][k / 2] + n, bits(load(rows[k] + n)) | bits(load(rows[k + 1] + n)) >> 16);
    }
  }
}

// Of the weights, rows of 32 k and 32 n.
ATALLA_INLINE const float (*block(Weights& w, uint32_t half_k, uint32_t half_n)) [kLanes] {
  if ((w.made >> (2 * half_k + half_n) & 1) == 0) [[unlikely]]
    make_block(w, half_k, half_n);
  return w.blocks[half_k][half_n];
}

using N = F::Part;
constexpr int kParts = kLanes / kPartLanes;  // of a register

// acc + a * b, where the product is exact.
ATALLA_INLINE N multiply_add(N a, N b, N acc) {
#if defined(__AVX512F__)
  return reinterpret_cast<N>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(acc)));
#elif defined(__AVX2__)
  return reinterpret_cast<N>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(acc)));
#else
  return acc + a * b;  // not contracted (-ffp-contract=off)
#endif
}

ATALLA_INLINE void finish_row(float* d, const float* c, const F& low, const F& high) {
  store(d, canonical(round_bf16(low) + load(c)));
  store(d + 16, canonical(round_bf16(high) + load(c + 16)));
}

// sums + in x rows, k upward, where products may be inexact.
ATALLA_INLINE void add_exactly(const float (*rows)[kLanes], const float* in, F& low, F& high) {
  for (int k = 0; k < kLanes; ++k) {
    const F a = every(in[k]);
    low = low + a * load(rows[k]);
    high = high + a * load(rows[k] + 16);
  }
}

[[gnu::noinline]] void row_exactly(const float (*rows)[kLanes], const float* in, float* d, const float* c) {
  F low = every(0.0f), high = low;
  add_exactly(rows, in, low, high);
  finish_row(d, c, low, high);
}

[[gnu::noinline]] void row_elsewhere(const Weights& w, float* d, const float* a, const float* c) {
  alignas(64) float out[kLanes];
  w.array.row(w.array.context, a, c, out);
  memcpy(d, out, sizeof out);
}

// sums + in x rows, k upward, where products are exact.
ATALLA_INLINE void add_products(const float (*rows)[kLanes], const float* in, N* sum) {
#pragma GCC unroll 32
  for (int k = 0; k < kLanes; ++k) {
    const N x = host_every(in[k]);
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) {
      sum[p] = multiply_add(x, *reinterpret_cast<const N*>(rows[k] + p * kPartLanes), sum[p]);
    }
  }
}

ATALLA_INLINE F half_of(const N* sum, int half) {
  F result;
#pragma GCC unroll 4
  for (int i = 0; i < kWideParts; ++i) result.part[i] = sum[half * kWideParts + i];
  return result;
}

// A row of pairs (MicroOp::c).
[[gnu::noinline]] void row_of_pairs(Weights& w, float (*v)[kLanes], const MicroOp& op) {
  const uint32_t deep = op.c & 1, wide = op.c >> 1;
  alignas(64) float in[2][kLanes];
  bool plain = w.plain == UINT64_MAX;
  for (uint32_t half = 0; half <= deep; ++half) {
    const F low = round_bf16(load(v[op.a + half]));
    const F high = round_bf16(load(v[op.a + half] + 16));
    store(in[half], low);
    store(in[half] + 16, high);
    plain &= is_plain(low, high);
  }
  for (uint32_t n = 0; n <= wide; ++n) {
    if (plain) [[likely]] {
      N sum[kParts] = {};
      for (uint32_t half = 0; half <= deep; ++half) add_products(block(w, half, n), in[half], sum);
      finish_row(v[op.d + n], v[op.b + n], half_of(sum, 0), half_of(sum, 1));
    } else {
      F low = every(0.0f), high = low;
      for (uint32_t half = 0; half <= deep; ++half) add_exactly(block(w, half, n), in[half], low, high);
      finish_row(v[op.d + n], v[op.b + n], low, high);
    }
  }
}

// d = a x weights + c. d may be a or c.
ATALLA_INLINE void row(Weights& w, float (*v)[kLanes], const MicroOp& op) {
  if (op.c != 0) [[unlikely]]
    return row_of_pairs(w, v, op);
  float* d = v[op.d];
  const float *a = v[op.a], *c = v[op.b];
  const float (*rows)[kLanes] = block(w, 0, 0);
  alignas(64) float in[kLanes];
  const F a0 = round_bf16(load(a));
  const F a1 = round_bf16(load(a + 16));
  store(in, a0);
  store(in + 16, a1);
  if (w.plain != UINT64_MAX || !is_plain(a0, a1)) [[unlikely]]
    return w.array.row != nullptr ? row_elsewhere(w, d, a, c) : row_exactly(rows, in, d, c);
  N sum[kParts] = {};
  add_products(rows, in, sum);
  finish_row(d, c, half_of(sum, 0), half_of(sum, 1));
}

// The nearest BF16 of what is no NaN, or the host's own NaN, which has no low bits.
ATALLA_INLINE F round_number(const F& x) {
  const U b = bits(x);
  return floats((b + ((b >> 16) & 1u) + 0x7FFFu) & 0xFFFF0000u);
}

// d = out + c of a row that is made of numbers.
ATALLA_INLINE void finish_number_row(float* d, const float* out, const float* c) {
  store(d, canonical(round_number(load(out)) + load(c)));
  store(d + 16, canonical(round_number(load(out + 16)) + load(c + 16)));
}

// Four rows side by side; all inputs are read before anything is written.
[[gnu::noinline]] bool four_rows(Weights& w, float (*v)[kLanes], const MicroOp* const* ops) {
  if (w.plain != UINT64_MAX) [[unlikely]]
    return false;
  const uint32_t deep = ops[0]->c & 1, wide = ops[0]->c >> 1;  // of all four
  alignas(64) float in[2][4][kLanes];
  S bad = every(0);
  for (uint32_t half = 0; half <= deep; ++half) {
    for (int i = 0; i < 4; ++i) {
      const F a0 = load(v[ops[i]->a + half]), a1 = load(v[ops[i]->a + half] + 16);
      // Before rounding, which makes zeros of some NaN and larger exponents of some values.
      bad = bad | not_plain(a0, kLeastPlain, kMostPlain - 1) | not_plain(a1, kLeastPlain, kMostPlain - 1);
      store(in[half][i], round_number(a0));
      store(in[half][i] + 16, round_number(a1));
    }
  }
  if (lanes_of(bad) != 0) [[unlikely]]
    return false;
  for (uint32_t n = 0; n <= wide; ++n) {
    alignas(64) float out[4][kLanes];
    // Eight sums: the host has registers for them, and enough of them to hide the latency of its adder.
    for (int p = 0; p < kParts; p += 2) {
      N sum[4][2] = {};
      for (uint32_t half = 0; half <= deep; ++half) {
        const float (*rows)[kLanes] = block(w, half, n);
#pragma GCC unroll 4
        for (int k = 0; k < kLanes; ++k) {
          const N w0 = *reinterpret_cast<const N*>(rows[k] + p * kPartLanes);
          const N w1 = *reinterpret_cast<const N*>(rows[k] + (p + 1) * kPartLanes);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            const N x = host_every(in[half][i][k]);
            sum[i][0] = multiply_add(x, w0, sum[i][0]);
            sum[i][1] = multiply_add(x, w1, sum[i][1]);
          }
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        *reinterpret_cast<N*>(out[i] + p * kPartLanes) = sum[i][0];
        *reinterpret_cast<N*>(out[i] + (p + 1) * kPartLanes) = sum[i][1];
      }
    }
    for (int i = 0; i < 4; ++i) finish_number_row(v[ops[i]->d + n], out[i], v[ops[i]->b + n]);
  }
  return true;
}

}  // namespace
}  // namespace atalla::sim::isa::ATALLA_ISA
