// SPDX-License-Identifier: BSD-3-Clause
//
// The 32-lane operations. A register is two vectors of 16; every instruction set gives the same bits.
#pragma once

#include "sim/isa/engine/wide.h"
#include "sim/isa/exp_table.h"
#include "sim/isa/micro_op.h"
#include "sim/isa/state.h"

namespace atalla::sim::isa::ATALLA_ISA {
namespace {

// `result` where x is a number, the canonical NaN elsewhere.
ATALLA_INLINE F unless_nan(F x, F result) {
#if defined(__AVX512F__)
  const auto v = reinterpret_cast<__m512>(x.part[0]);
  const auto kept = reinterpret_cast<__m512>(result.part[0]);
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(kCanonicalNan));
  return {{reinterpret_cast<F::Part>(_mm512_mask_mov_ps(kept, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan))}};
#else
  return choose(x == x, result, floats(every(kCanonicalNan)));
#endif
}
ATALLA_INLINE F canonical(F x) { return unless_nan(x, x); }

// The nearest BF16, ties to even; a NaN becomes the canonical one.
ATALLA_INLINE F round_bf16(F x) {
  const U b = bits(x);
  return unless_nan(x, floats((b + 0x7FFFu + ((b >> 16) & 1u)) & 0xFFFF0000u));
}

// Takes `fresh` in lanes whose bit is set, and `old` in the others. `mask` has the 16 bits of this half.
ATALLA_INLINE F select(uint32_t mask, F fresh, F old) {
#if defined(__AVX512F__)
  const auto kept = reinterpret_cast<__m512>(old.part[0]), taken = reinterpret_cast<__m512>(fresh.part[0]);
  return {{reinterpret_cast<F::Part>(_mm512_mask_mov_ps(kept, static_cast<__mmask16>(mask), taken))}};
#else
  alignas(64) static constexpr uint32_t kLane[16] = {1u << 0,  1u << 1,  1u << 2,  1u << 3, 1u << 4,  1u << 5,
                                                     1u << 6,  1u << 7,  1u << 8,  1u << 9, 1u << 10, 1u << 11,
                                                     1u << 12, 1u << 13, 1u << 14, 1u << 15};
  return choose((every(mask) & load(kLane)) != 0, fresh, old);
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
  const F b = round_bf16(floats(every(scalar)));
  const F low = round_bf16(Operation::of(round_bf16(load(a)), b));
  const F high = round_bf16(Operation::of(round_bf16(load(a + 16)), b));
  store_masked(d, mask, low, high);
}

inline void exponential(float* d, const float* a, uint32_t mask, const uint16_t* table) {
  alignas(64) uint32_t index[kLanes];
  alignas(64) uint32_t out[kLanes];
  store(index, bits(round_bf16(load(a))) >> 16);
  store(index + 16, bits(round_bf16(load(a + 16))) >> 16);
  for (int i = 0; i < kLanes; ++i) out[i] = static_cast<uint32_t>(table[index[i]]) << 16;
  store_masked(d, mask, floats(load(out)), floats(load(out + 16)));
}

// Bits of the lanes for which the comparison holds; with a NaN only kNotEqual does.
ATALLA_INLINE uint32_t compare(Comparison comparison, F a0, F a1, F b0, F b1) {
  const auto both = [&](auto f) { return lanes_of(f(a0, b0)) | lanes_of(f(a1, b1)) << 16; };
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
  const F all = floats(every(result));
  if ((imm & 64) != 0) {
    store(d, all);
    store(d + 16, all);
    return;
  }
  const F low = (imm & 32) != 0 ? every(0.0f) : load(a);
  const F high = (imm & 32) != 0 ? every(0.0f) : load(a + 16);
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
  store(lanes, select(mask & 0xFFFF, round_bf16(load(a)), every(0.0f)));
  store(lanes + 16, select(mask >> 16, round_bf16(load(a + 16)), every(0.0f)));
  float sum = 0;  // never -0, so adding the zeros of inactive lanes changes nothing
  for (const float lane : lanes) sum += lane;
  place(d, a, imm, canonical_bits(sum));
}

// Least or greatest; -0 is less than +0, and a NaN wins.
inline void reduce_extreme(float* d, const float* a, uint32_t imm, uint32_t mask, bool greatest) {
  const F empty = every(greatest ? -__builtin_inff() : __builtin_inff());
  const F low = select(mask & 0xFFFF, round_bf16(load(a)), empty);
  const F high = select(mask >> 16, round_bf16(load(a + 16)), empty);
  // As integers in the order of the values: negative ones mirrored.
  const auto key = [](F x) {
    const S s = each<S>([](auto part) { return part; }, x);
    return s ^ ((s >> 31) & 0x7FFFFFFF);
  };
  alignas(64) int32_t keys[kLanes];
  store(keys, key(low));
  store(keys + 16, key(high));
  const uint32_t nan = lanes_of(low != low) | lanes_of(high != high);
  int32_t best = keys[0];
  for (int i = 1; i < kLanes; ++i) best = (greatest ? keys[i] > best : keys[i] < best) ? keys[i] : best;
  const auto result = static_cast<uint32_t>(best ^ ((best >> 31) & 0x7FFFFFFF));
  place(d, a, imm, nan != 0 ? kCanonicalNan : result);
}

}  // namespace
}  // namespace atalla::sim::isa::ATALLA_ISA
