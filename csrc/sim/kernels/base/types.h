// SPDX-License-Identifier: BSD-3-Clause
//
// The types in which kernels compute, or move, elements of a dtype.
#pragma once

#include "sim/kernels/base/dispatch.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// The result of f, called with a value of the type of arithmetic and one of the type in memory.
template <class F>
auto with_float_types(atalla_dtype dtype, F&& f) {
  switch (dtype) {
    case ATALLA_F64:
      return f(double{}, double{});
    case ATALLA_F32:
      return f(float{}, float{});
    case ATALLA_F16:
      return f(float{}, Half{});
    default:
      return f(float{}, BFloat16{});
  }
}

// The result of f, called with a value of the type of sums of a real dtype.
template <class F>
auto with_sum_type(atalla_dtype dtype, F&& f) {
  if (dtype == ATALLA_F64) return f(double{});
  return (kFloatDtypes >> dtype & 1) != 0 ? f(float{}) : f(int64_t{});
}

// And of matrix products, of integers modulo 2^32 or 2^64.
template <class F>
auto with_product_type(atalla_dtype dtype, F&& f) {
  if (dtype == ATALLA_F64) return f(double{});
  if (dtype == ATALLA_I64) return f(uint64_t{});
  return (kFloatDtypes >> dtype & 1) != 0 ? f(float{}) : f(uint32_t{});
}

// `Bytes` wide elements of which only the bits count.
template <int Bytes>
struct Bits {
  static constexpr int kWords = Bytes == 16 ? 2 : 1;
  std::conditional_t<Bytes == 1, uint8_t,
                     std::conditional_t<Bytes == 2, uint16_t, std::conditional_t<Bytes == 4, uint32_t, uint64_t>>>
      word[kWords];
};

// Runs f on elements of the width of `dtype`.
template <class F>
inline void dispatch_width(atalla_dtype dtype, F&& f) {
  switch (dtype_size(dtype)) {
    case 1:
      return f(Bits<1>{});
    case 2:
      return f(Bits<2>{});
    case 4:
      return f(Bits<4>{});
    case 8:
      return f(Bits<8>{});
    default:
      return f(Bits<16>{});
  }
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
