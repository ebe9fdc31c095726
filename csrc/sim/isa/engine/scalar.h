// SPDX-License-Identifier: BSD-3-Clause
//
// Scalar arithmetic whose meaning C++ does not give by itself.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "sim/isa/engine/vector.h"

namespace atalla::sim::isa::ATALLA_ISA {
namespace {

inline float to_float(uint32_t b) {
  float x = 0;
  memcpy(&x, &b, 4);
  return x;
}

// An operand of add.bf, sub.bf, mul.bf: a small register is a BF16 in its low half.
inline float half_or_float(uint32_t b) { return to_float(b <= 0xFFFF ? b << 16 : b); }

// Truncated; -2^31 / -1 wraps.
inline uint32_t divide(uint32_t a, uint32_t b) {
  if (b == UINT32_MAX) return 0 - a;
  return static_cast<uint32_t>(static_cast<int32_t>(a) / static_cast<int32_t>(b));
}

// Floored: the sign is the divisor's.
inline uint32_t modulo(uint32_t a, uint32_t b) {
  if (b == UINT32_MAX) return 0;
  const int32_t divisor = static_cast<int32_t>(b);
  const int32_t rest = static_cast<int32_t>(a) % divisor;
  return static_cast<uint32_t>(rest != 0 && (rest < 0) != (divisor < 0) ? rest + divisor : rest);
}

// Toward zero; saturates, 0 for a NaN.
inline uint32_t to_integer(float x) {
  if (x != x) return 0;
  if (x >= 2147483648.0f) return 0x7FFFFFFF;
  if (x < -2147483648.0f) return 0x80000000;
  return static_cast<uint32_t>(static_cast<int32_t>(x));
}

inline uint32_t round_bits(uint32_t b) {
  const bool is_nan = (b & 0x7FFFFFFF) > 0x7F800000;
  return is_nan ? kCanonicalNan : (b + 0x7FFF + (b >> 16 & 1)) & 0xFFFF0000;
}

inline uint32_t from_integer(uint32_t a) {
  return round_bits(canonical_bits(static_cast<float>(static_cast<int32_t>(a))));
}

inline bool branch_holds(Op op, int32_t a, int32_t b) {
  switch (op) {
    case Op::kBeqS:
      return a == b;
    case Op::kBneS:
      return a != b;
    case Op::kBltS:
      return a < b;
    case Op::kBgeS:
      return a >= b;
    case Op::kBgtS:
      return a > b;
    default:
      return a <= b;
  }
}

}  // namespace
}  // namespace atalla::sim::isa::ATALLA_ISA
