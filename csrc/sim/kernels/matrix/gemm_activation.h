// SPDX-License-Identifier: BSD-3-Clause
//
// Activation functions that a matrix product applies to a row of its results before it is stored.
//
// The declarations below tell GCC that glibc's libmvec has vector variants, so that the loops are vectorised; they must
// stand before any include that declares the same functions. A row is always processed in whole panels, so that the
// vector variant is used for every element and a result does not depend on its position.
#pragma once

extern "C" {
__attribute__((__simd__("notinbranch"))) float expf(float) noexcept;
__attribute__((__simd__("notinbranch"))) double exp(double) noexcept;
__attribute__((__simd__("notinbranch"))) float erff(float) noexcept;
__attribute__((__simd__("notinbranch"))) double erf(double) noexcept;
__attribute__((__simd__("notinbranch"))) float tanhf(float) noexcept;
__attribute__((__simd__("notinbranch"))) double tanh(double) noexcept;
}

#include "sim/kernels/matrix/gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {

inline float exp_of(float x) { return expf(x); }
inline double exp_of(double x) { return exp(x); }
inline float erf_of(float x) { return erff(x); }
inline double erf_of(double x) { return erf(x); }
inline float tanh_of(float x) { return tanhf(x); }
inline double tanh_of(double x) { return tanh(x); }

// x[0 .. kPanel) in place. Unrolling is forbidden because GCC would otherwise turn the short loops into scalar calls
// before it tries to vectorise them.
template <class T>
inline void apply_activation(T* x, Activation activation) {
  constexpr int n = kPanel<T>;
  if (activation == Activation::kRelu) {
    if constexpr (std::is_floating_point_v<T>) {
      for (int i = 0; i < n; ++i) x[i] = x[i] < T(0) ? T(0) : x[i];  // keeps NaN
    } else {
      using S = std::make_signed_t<T>;
      for (int i = 0; i < n; ++i) x[i] = static_cast<S>(x[i]) < 0 ? T(0) : x[i];
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T half = T(0.5), inverse_sqrt2 = T(0.70710678118654752440), root_2_pi = T(0.79788456080286535588);
    switch (activation) {
      case Activation::kGeluErf:
#pragma GCC unroll 1
        for (int i = 0; i < n; ++i) x[i] = x[i] * half * (T(1) + erf_of(x[i] * inverse_sqrt2));
        break;
      case Activation::kGeluTanh:
#pragma GCC unroll 1
        for (int i = 0; i < n; ++i) {
          const T inner = root_2_pi * (x[i] + T(0.044715) * x[i] * x[i] * x[i]);
          x[i] = half * x[i] * (T(1) + tanh_of(inner));
        }
        break;
      case Activation::kSilu:
#pragma GCC unroll 1
        for (int i = 0; i < n; ++i) x[i] = x[i] / (T(1) + exp_of(-x[i]));
        break;
      default:
        break;
    }
  }
}

}  // namespace atalla::sim::ATALLA_ISA
