// SPDX-License-Identifier: BSD-3-Clause
//
// The operations that reductions and scans share. Without base/vec_math.h, with which the compiler would call other
// exponentials in the loops of a scan.
#pragma once

#include <type_traits>

#include "sim/kernels/base/complex_math.h"
#include "sim/kernels/base/vector.h"

namespace atalla::sim::ATALLA_ISA {

template <class V>
struct SumOp {
  using T = V;
  using Acc = V;
  static constexpr Acc identity() { return Acc{}; }
  ATALLA_INLINE static Acc map(T x, Acc) { return x; }
  ATALLA_INLINE static Acc combine(Acc a, Acc b) {
    if constexpr (std::is_integral_v<V>) {
      using U = std::make_unsigned_t<V>;  // wraps
      return static_cast<V>(static_cast<U>(a) + static_cast<U>(b));
    } else if constexpr (kIsComplex<V>) {
      return {a.re + b.re, a.im + b.im};
    } else {
      return a + b;
    }
  }
};

template <class V>
struct ProdOp {
  using T = V;
  using Acc = V;
  static constexpr Acc identity() {
    if constexpr (kIsComplex<V>) return {1, 0};
    else return V(1);
  }
  ATALLA_INLINE static Acc map(T x, Acc) { return x; }
  ATALLA_INLINE static Acc combine(Acc a, Acc b) {
    if constexpr (std::is_integral_v<V>) {
      using U = std::make_unsigned_t<V>;
      return static_cast<V>(static_cast<U>(a) * static_cast<U>(b));
    } else if constexpr (kIsComplex<V>) {
      return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    } else {
      return a * b;
    }
  }
};

}  // namespace atalla::sim::ATALLA_ISA
