// SPDX-License-Identifier: BSD-3-Clause
//
// norm1, norm2, norm_inf: the sum of magnitudes, the root of the sum of their squares, and the largest magnitude, in
// one pass over the input and with one rounding to its dtype. The result of complex numbers is real.
#include "sim/kernels/reduce/reduce_passes.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <class V>
struct MagnitudeOp : SumOp<V> {
  ATALLA_INLINE static V map(V x, V) { return abs(x); }
};

template <class V>
struct SquareOp : SumOp<V> {
  ATALLA_INLINE static V map(V x, V) {
    if constexpr (kIsComplex<V>) return {x.re * x.re + x.im * x.im, 0};
    else return x * x;
  }
};

template <class V>
struct LargestMagnitudeOp : MaxOp<V> {
  ATALLA_INLINE static V map(V x, V) { return abs(x); }
};

template <class T>
struct Norm2 : Plain<SquareOp<T>> {
  using Plain<SquareOp<T>>::Plain;
  void store(const Launch& launch, const ReducePlan& plan, const Block& tile, T* accs, const T*) const {
    for (int64_t c = 0; c < tile.sizes[0]; ++c) {
      if constexpr (kIsComplex<T>) accs[c].re = sqrt(accs[c].re);
      else accs[c] = sqrt(accs[c]);
    }
    store_tile(launch, plan, tile, 0, accs, this->dtype);  // to a real dtype: drops the imaginary part, which is 0
  }
};

template <class T>
using Norm1 = Plain<MagnitudeOp<T>>;
template <class T>
using NormInf = Plain<LargestMagnitudeOp<T>>;

}  // namespace

extern constexpr KernelFamily reduce_norm_kernels = {
    {"reduce.norm1", kFloatDtypes, reduce_floats<Norm1>},
    {"reduce.norm_inf", kFloatDtypes, reduce_floats<NormInf>},
    {"reduce.norm2", kFloatDtypes | kComplexDtypes, reduce_in_sum_type<Norm2, false>},
};

}  // namespace atalla::sim::ATALLA_ISA
