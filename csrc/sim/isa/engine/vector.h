// SPDX-License-Identifier: BSD-3-Clause
//
// The 32-lane operations. A register is two vectors of 16; every instruction set gives the same bits.
#pragma once

#include <cstring>

#include "sim/isa/exp_table.h"
#include "sim/isa/micro_op.h"
#include "sim/isa/state.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi"
#if defined(__GNUC__) && !defined(__clang__)  // GCC 12 says it of its own AVX-512 headers (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace atalla::sim::isa::ATALLA_ISA {
namespace {

using F = float __attribute__((vector_size(64), may_alias));
using U = uint32_t __attribute__((vector_size(64), may_alias));
using S = int32_t __attribute__((vector_size(64), may_alias));
#define ATALLA_INLINE [[gnu::always_inline]] inline

ATALLA_INLINE F load(const float* p) { return *reinterpret_cast<const F*>(p); }
ATALLA_INLINE void store(float* p, F value) { *reinterpret_cast<F*>(p) = value; }
ATALLA_INLINE F splat(float x) { return F{} + x; }
ATALLA_INLINE U bits(F x) { return reinterpret_cast<U>(x); }
ATALLA_INLINE F floats(U x) { return reinterpret_cast<F>(x); }

// `result` where x is a number, the canonical NaN elsewhere.
ATALLA_INLINE F unless_nan(F x, F result) {
#if defined(__AVX512F__)
  const auto v = reinterpret_cast<__m512>(x);
  const auto kept = reinterpret_cast<__m512>(result);
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(kCanonicalNan));
  return reinterpret_cast<F>(_mm512_mask_mov_ps(kept, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan));
#else
  return floats(x == x ? bits(result) : U{} + kCanonicalNan);
#endif
}
ATALLA_INLINE F canonical(F x) { return unless_nan(x, x); }

// The nearest BF16, ties to even; a NaN becomes the canonical one.
ATALLA_INLINE F round_bf16(F x) {
  const U b = bits(x);
  return unless_nan(x, floats((b + 0x7FFFu + (b >> 16 & 1u)) & 0xFFFF0000u));
}

// Takes `fresh` in lanes whose bit is set, and `old` in the others. `mask` has the 16 bits of this half.
ATALLA_INLINE F select(uint32_t mask, F fresh, F old) {
#if defined(__AVX512F__)
  return reinterpret_cast<F>(
      _mm512_mask_mov_ps(reinterpret_cast<__m512>(old), static_cast<__mmask16>(mask), reinterpret_cast<__m512>(fresh)));
#else
  const U lane = {1u << 0, 1u << 1, 1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
                  1u << 8, 1u << 9, 1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15};
  return ((U{} + mask) & lane) != 0 ? fresh : old;
#endif
}

ATALLA_INLINE void store_masked(float* d, uint32_t mask, F low, F high) {
  if (mask == UINT32_MAX) [[likely]] {
    store(d, low);
    store(d + 16, high);
  } else {
    store(d, select(mask & 0xFFFF, low, load(d)));
    store(d + 16, select(mask >> 16, high, load(d + 16)));
  }
}

struct AddLanes {
  ATALLA_INLINE static F of(F a, F b) { return a + b; }
};
struct SubLanes {
  ATALLA_INLINE static F of(F a, F b) { return a - b; }
};
struct MulLanes {
  ATALLA_INLINE static F of(F a, F b) { return a * b; }
};

template <class Operation>
ATALLA_INLINE void arithmetic(float* d, const float* a, const float* b, uint32_t mask) {
  const F low = round_bf16(Operation::of(round_bf16(load(a)), round_bf16(load(b))));
  const F high = round_bf16(Operation::of(round_bf16(load(a + 16)), round_bf16(load(b + 16))));
  store_masked(d, mask, low, high);
}

template <class Operation>
ATALLA_INLINE void arithmetic_scalar(float* d, const float* a, uint32_t scalar, uint32_t mask) {
  const F b = round_bf16(floats(U{} + scalar));
  const F low = round_bf16(Operation::of(round_bf16(load(a)), b));
  const F high = round_bf16(Operation::of(round_bf16(load(a + 16)), b));
  store_masked(d, mask, low, high);
}

inline void exponential(float* d, const float* a, uint32_t mask, const uint16_t* table) {
  alignas(64) uint32_t index[kLanes];
  alignas(64) uint32_t out[kLanes];
  *reinterpret_cast<U*>(index) = bits(round_bf16(load(a))) >> 16;
  *reinterpret_cast<U*>(index + 16) = bits(round_bf16(load(a + 16))) >> 16;
  for (int i = 0; i < kLanes; ++i) out[i] = static_cast<uint32_t>(table[index[i]]) << 16;
  store_masked(d, mask, floats(*reinterpret_cast<U*>(out)), floats(*reinterpret_cast<U*>(out + 16)));
}

template <class Compare>
ATALLA_INLINE uint32_t compare_half(F a, F b, Compare compare) {
  const auto holds = compare(a, b);
#if defined(__AVX512F__)
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(holds));
#else
  uint32_t found = 0;
  for (int i = 0; i < 16; ++i) found |= static_cast<uint32_t>(holds[i] & 1) << i;
  return found;
#endif
}

// Bits of the lanes for which the comparison holds; with a NaN only kNotEqual does.
ATALLA_INLINE uint32_t compare(Comparison comparison, F a0, F a1, F b0, F b1) {
  const auto both = [&](auto f) { return compare_half(a0, b0, f) | compare_half(a1, b1, f) << 16; };
  switch (comparison) {
    case Comparison::kGreater:
      return both([](F a, F b) { return a > b; });
    case Comparison::kLess:
      return both([](F a, F b) { return a < b; });
    case Comparison::kEqual:
      return both([](F a, F b) { return a == b; });
    default:
      return ~both([](F a, F b) { return a == b; });
  }
}

// The reduction's result into register d, as imm8 asks.
inline void place(float* d, const float* a, uint32_t imm, uint32_t result) {
  const F all = floats(U{} + result);
  if ((imm & 64) != 0) {
    store(d, all);
    store(d + 16, all);
    return;
  }
  const F low = (imm & 32) != 0 ? F{} : load(a);
  const F high = (imm & 32) != 0 ? F{} : load(a + 16);
  store(d, low);
  store(d + 16, high);
  memcpy(d + (imm & 31), &result, 4);
}

inline uint32_t canonical_bits(float x) {
  uint32_t b = 0;
  memcpy(&b, &x, 4);
  return x == x ? b : kCanonicalNan;
}

inline void reduce_sum(float* d, const float* a, uint32_t imm, uint32_t mask) {
  alignas(64) float lanes[kLanes];
  store(lanes, select(mask & 0xFFFF, round_bf16(load(a)), F{}));
  store(lanes + 16, select(mask >> 16, round_bf16(load(a + 16)), F{}));
  float sum = 0;  // never -0, so adding the zeros of inactive lanes changes nothing
  for (const float lane : lanes) sum += lane;
  place(d, a, imm, canonical_bits(sum));
}

// Least or greatest; -0 is less than +0, and a NaN wins.
inline void reduce_extreme(float* d, const float* a, uint32_t imm, uint32_t mask, bool greatest) {
  const F empty = splat(greatest ? -__builtin_inff() : __builtin_inff());
  const F low = select(mask & 0xFFFF, round_bf16(load(a)), empty);
  const F high = select(mask >> 16, round_bf16(load(a + 16)), empty);
  // As integers in the order of the values: negative ones mirrored.
  const auto key = [](F x) {
    const S s = reinterpret_cast<S>(x);
    return s ^ ((s >> 31) & 0x7FFFFFFF);
  };
  alignas(64) int32_t keys[kLanes];
  *reinterpret_cast<S*>(keys) = key(low);
  *reinterpret_cast<S*>(keys + 16) = key(high);
  const uint32_t nan = compare_half(low, low, [](F x, F y) { return x != y; }) |
                       compare_half(high, high, [](F x, F y) { return x != y; });
  int32_t best = keys[0];
  for (int i = 1; i < kLanes; ++i) best = (greatest ? keys[i] > best : keys[i] < best) ? keys[i] : best;
  const auto result = static_cast<uint32_t>(best ^ ((best >> 31) & 0x7FFFFFFF));
  place(d, a, imm, nan != 0 ? kCanonicalNan : result);
}

}  // namespace
}  // namespace atalla::sim::isa::ATALLA_ISA
