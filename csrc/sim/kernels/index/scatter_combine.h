// SPDX-License-Identifier: BSD-3-Clause
//
// Combination of a written element with the existing one.
#pragma once

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// An integer type whose arithmetic wraps, and in which a product of small ones does not overflow.
template <class S>
using Wrapping = std::conditional_t<sizeof(S) == 8, uint64_t, uint32_t>;

// A complex product with the bits of `mul`. In loops that it vectorises, GCC fuses the products with the alternating
// sums (vfmaddsub) although contraction is off, unless it cannot see through the products.
template <class S>
[[gnu::always_inline]] inline S complex_product(S a, S b) {
  auto rr = a.re * b.re, ii = a.im * b.im, ri = a.re * b.im, ir = a.im * b.re;
  asm("" : "+x"(rr), "+x"(ii), "+x"(ri), "+x"(ir));
  return {rr - ii, ri + ir};
}

template <Combine C, class S>
[[gnu::always_inline]] inline S combined(S a, S b) {
  if constexpr (std::is_same_v<S, BoolByte>) {
    const uint8_t x = a.byte != 0, y = b.byte != 0;
    return BoolByte{static_cast<uint8_t>(C == Combine::kAdd || C == Combine::kMaximum ? x | y : x & y)};
  } else if constexpr (kIsHalf<S>) {
    return convert<S>(combined<C>(convert<float>(a), convert<float>(b)));
  } else if constexpr (kIsComplex<S>) {
    if constexpr (C == Combine::kAdd) return S{a.re + b.re, a.im + b.im};
    return complex_product(a, b);
  } else if constexpr (C == Combine::kMaximum) {
    return (a < b) | (b != b) ? b : a;  // a NaN stays, on either side; and no branch
  } else if constexpr (C == Combine::kMinimum) {
    return (b < a) | (b != b) ? b : a;
  } else if constexpr (std::is_integral_v<S>) {
    using W = Wrapping<S>;
    const W x = static_cast<W>(a), y = static_cast<W>(b);
    return static_cast<S>(C == Combine::kAdd ? x + y : x * y);
  } else {
    return C == Combine::kAdd ? a + b : a * b;
  }
}

template <class E>
struct AssignOp {
  void operator()(E& to, const E& from) const { to = from; }
};

template <Combine C, class S>
struct CombineOp {
  void operator()(S& to, const S& from) const { to = combined<C>(to, from); }
};

// to += alpha * from, rounded once.
template <class S>
struct AddScaledOp {
  using T = std::conditional_t<kIsHalf<S>, float, S>;
  T alpha;
  void operator()(S& to, const S& from) const {
    if constexpr (kIsHalf<S>) {
      to = convert<S>(convert<float>(to) + alpha * convert<float>(from));
    } else {
      to = combined<Combine::kAdd>(to, combined<Combine::kMultiply>(alpha, from));
    }
  }
};

template <class S>
AddScaledOp<S> add_scaled(const Number& scale) {
  if constexpr (std::is_same_v<S, BoolByte>) {
    return {BoolByte{static_cast<uint8_t>(scale.integer != 0)}};
  } else if constexpr (kIsComplex<S>) {
    using T = decltype(S::re);
    return {S{static_cast<T>(scale.real), static_cast<T>(scale.imaginary)}};
  } else if constexpr (std::is_integral_v<S>) {
    return {static_cast<S>(scale.integer)};
  } else {
    return {static_cast<typename AddScaledOp<S>::T>(scale.real)};
  }
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
