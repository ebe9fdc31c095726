// SPDX-License-Identifier: BSD-3-Clause
//
// nansum, count_nonzero and xor: sums of mapped elements.
#include "sim/kernels/reduce/reduce_passes.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// NaN counts as nothing.
template <class V>
struct NanSumOp : SumOp<V> {
  ATALLA_INLINE static V map(V x, V) { return x == x ? x : V(0); }
};

struct CountOp : SumOp<int64_t> {
  using T = uint8_t;
  ATALLA_INLINE static int64_t map(T x, int64_t) { return x != 0; }
};

// The exclusive or of the elements' bits, as float64 or int64.
template <class V>
struct XorOp {
  using T = V;
  using Acc = int64_t;
  static constexpr Acc identity() { return 0; }
  ATALLA_INLINE static Acc map(T x, Acc) { return std::bit_cast<Acc>(x); }
  ATALLA_INLINE static Acc combine(Acc a, Acc b) { return a ^ b; }
};

// The result is int64, whatever the elements are.
template <class Op>
struct IntegerResult : Plain<Op> {
  using Plain<Op>::Plain;
  void store(const Launch& launch, const ReducePlan& plan, const Block& tile, const int64_t* accs,
             const int64_t*) const {
    store_tile(launch, plan, tile, 0, accs, ATALLA_I64);
  }
};

template <class T>
using NanSum = Plain<NanSumOp<T>>;

atalla_status run_reduce_count_nonzero(const Launch& launch) {
  return run_reduction<IntegerResult<CountOp>>(launch, ATALLA_BOOL);
}

atalla_status run_reduce_xor(const Launch& launch) {
  if ((uint64_t{1} << launch.desc.compute_dtype & kFloatDtypes) != 0) {
    return run_reduction<IntegerResult<XorOp<double>>>(launch, ATALLA_F64);
  }
  return run_reduction<IntegerResult<XorOp<int64_t>>>(launch, ATALLA_I64);
}

}  // namespace

extern constexpr KernelFamily reduce_count_kernels = {
    {"reduce.nansum", kFloatDtypes, reduce_floats<NanSum>},
    {"reduce.count_nonzero", kAllDtypes, run_reduce_count_nonzero},
    {"reduce.xor", kRealDtypes, run_reduce_xor},
};

}  // namespace atalla::sim::ATALLA_ISA
