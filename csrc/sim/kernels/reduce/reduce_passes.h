// SPDX-License-Identifier: BSD-3-Clause
//
// Passes of reductions over numbers: an operation on mapped elements. (Passes that carry an index: reduce_arg.cpp.)
#pragma once

#include <limits>

#include "sim/kernels/base/complex_math.h"
#include "sim/kernels/base/vec_math.h"
#include "sim/kernels/base/vector.h"
#include "sim/kernels/reduce/reduce_engine.h"
#include "sim/kernels/reduce/reduce_operations.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// A stored element as one of the loop type.
template <class T, class S>
ATALLA_INLINE T element(const S& x) {
  if constexpr (std::is_same_v<T, S>) return x;
  else return convert<T>(x);
}

// An operation that combines numbers in fewer steps than it combines numbers and NaN.
template <class Op>
concept HasNumberCombine = requires(typename Op::Acc a) { Op::combine_numbers(a, a); };

// As reduce_lanes(), if no element is NaN: the sum of all elements is NaN if one is, and seldom else.
template <HasNumberCombine Op, int L, class S>
ATALLA_INLINE bool reduce_number_lanes(const S* x, int64_t n, typename Op::Acc param, typename Op::Acc& result) {
  using T = typename Op::T;
  auto mapped = [&](int64_t i) { return Op::map(element<T>(x[i]), param); };
  T lanes[L], sums[L / 2], rest = T(0);
  for (int l = 0; l < L; ++l) lanes[l] = Op::identity();
  for (int l = 0; l < L / 2; ++l) sums[l] = T(0);
  int64_t i = 0;
  for (; i + L <= n; i += L) {
#pragma GCC ivdep
    for (int l = 0; l < L; ++l) lanes[l] = Op::combine_numbers(lanes[l], mapped(i + l));
#pragma GCC ivdep
    for (int l = 0; l < L / 2; ++l) sums[l] += mapped(i + l) + mapped(i + L / 2 + l);
  }
  for (int l = 0; i + l < n; ++l) {
    lanes[l] = Op::combine_numbers(lanes[l], mapped(i + l));
    rest += mapped(i + l);
  }
  rest += fold<L / 2>(sums, [](T a, T b) { return a + b; });
  result = fold<L>(lanes, [](T a, T b) { return Op::combine_numbers(a, b); });
  return rest == rest;
}

// Rows by vector lanes: lane l takes elements l, l + L, ...; then the lanes are combined as a tree.
template <class Op, int L, class S>
ATALLA_INLINE typename Op::Acc reduce_lanes(const S* x, int64_t n, typename Op::Acc param) {
  using T = typename Op::T;
  using Acc = typename Op::Acc;
  if constexpr (HasNumberCombine<Op>) {
    Acc result;
    if (reduce_number_lanes<Op, L>(x, n, param, result)) return result;
  }
  Acc lanes[L];
  for (int l = 0; l < L; ++l) lanes[l] = Op::identity();
  int64_t i = 0;
  for (; i + L <= n; i += L) {
#pragma GCC ivdep
    for (int l = 0; l < L; ++l) lanes[l] = Op::combine(lanes[l], Op::map(element<T>(x[i + l]), param));
  }
  for (int l = 0; i + l < n; ++l) lanes[l] = Op::combine(lanes[l], Op::map(element<T>(x[i + l]), param));
  return fold<L>(lanes, [](Acc a, Acc b) { return Op::combine(a, b); });
}

// The pass of an operation with T, Acc, identity(), map(x, param) and an associative, commutative combine(a, b).
template <class Op>
struct LanePass : Op {
  using T = typename Op::T;
  using Acc = typename Op::Acc;

  static constexpr bool kWidensBFloat16 = std::is_same_v<T, float>;

  template <class S>
  static Acc row(const S* x, int64_t n, int64_t, Acc param) {
    constexpr int kLanes = static_cast<int>(512 / sizeof(Acc));
    constexpr int kFewLanes = 16;
    if (n < kFewLanes) {
      Acc acc = Op::map(element<T>(x[0]), param);
      for (int64_t i = 1; i < n; ++i) acc = Op::combine(acc, Op::map(element<T>(x[i]), param));
      return acc;
    }
    return n < 2 * kLanes ? reduce_lanes<Op, kFewLanes>(x, n, param) : reduce_lanes<Op, kLanes>(x, n, param);
  }

  template <class S>
  static void columns(Acc* acc, const S* x, int64_t stride, int64_t rows, int64_t n, int64_t, const Acc* params) {
    for (int64_t r = 0; r < rows; ++r, x += stride) {
      if (params) {
#pragma GCC ivdep
        for (int64_t c = 0; c < n; ++c) acc[c] = Op::combine(acc[c], Op::map(element<T>(x[c]), params[c]));
      } else {
#pragma GCC ivdep
        for (int64_t c = 0; c < n; ++c) acc[c] = Op::combine(acc[c], Op::map(element<T>(x[c]), Op::identity()));
      }
    }
  }
};

// NaN if any element is.
template <class V>
struct MaxOp {
  using T = V;
  using Acc = V;
  static constexpr Acc identity() {
    if constexpr (std::is_floating_point_v<V>) return -std::numeric_limits<V>::infinity();
    else return std::numeric_limits<V>::lowest();
  }
  ATALLA_INLINE static Acc map(T x, Acc) { return x; }
  ATALLA_INLINE static Acc combine(Acc a, Acc b) { return maximum(a, b); }
  ATALLA_INLINE static Acc combine_numbers(Acc a, Acc b)
    requires std::is_floating_point_v<V>
  {
    return a > b ? a : b;
  }
};

template <class V>
struct MinOp {
  using T = V;
  using Acc = V;
  static constexpr Acc identity() {
    if constexpr (std::is_floating_point_v<V>) return std::numeric_limits<V>::infinity();
    else return std::numeric_limits<V>::max();
  }
  ATALLA_INLINE static Acc map(T x, Acc) { return x; }
  ATALLA_INLINE static Acc combine(Acc a, Acc b) { return minimum(a, b); }
  ATALLA_INLINE static Acc combine_numbers(Acc a, Acc b)
    requires std::is_floating_point_v<V>
  {
    return a < b ? a : b;
  }
};

// Squares of distances from the mean, summed.
template <class V>
struct SquaredDistanceOp : SumOp<V> {
  ATALLA_INLINE static V map(V x, V mean) {
    const V d = x - mean;
    if constexpr (kIsComplex<V>) return {d.re * d.re + d.im * d.im, 0};
    else return d * d;
  }
};

template <class V>
struct ShiftedExpOp : SumOp<V> {
  ATALLA_INLINE static V map(V x, V shift) { return exp(x - shift); }
};

// Calls f.template operator()<T>(loop dtype) with the accumulation type of a sum: I64 for integers, F32 for the floats
// up to it.
template <class F>
atalla_status dispatch_accumulation(atalla_dtype compute_dtype, F&& f) {
  switch (kDtypeTraits[compute_dtype].loop) {
    case ATALLA_F32:
      return f.template operator()<float>(ATALLA_F32);
    case ATALLA_F64:
      return f.template operator()<double>(ATALLA_F64);
    case ATALLA_C64:
      return f.template operator()<Complex<float>>(ATALLA_C64);
    case ATALLA_C128:
      return f.template operator()<Complex<double>>(ATALLA_C128);
    default:
      return f.template operator()<int64_t>(ATALLA_I64);
  }
}

// The same with float and double only.
template <class F>
atalla_status dispatch_floating(atalla_dtype compute_dtype, F&& f) {
  return kDtypeTraits[compute_dtype].loop == ATALLA_F64 ? f.template operator()<double>(ATALLA_F64)
                                                        : f.template operator()<float>(ATALLA_F32);
}

// With every real type in which elements are compared.
template <class F>
atalla_status dispatch_ordered(atalla_dtype compute_dtype, F&& f) {
  switch (kDtypeTraits[compute_dtype].loop) {
    case ATALLA_BOOL:
      return f.template operator()<uint8_t>(ATALLA_BOOL);
    case ATALLA_U8:
      return f.template operator()<uint8_t>(ATALLA_U8);
    case ATALLA_I8:
      return f.template operator()<int8_t>(ATALLA_I8);
    case ATALLA_I16:
      return f.template operator()<int16_t>(ATALLA_I16);
    case ATALLA_I32:
      return f.template operator()<int32_t>(ATALLA_I32);
    case ATALLA_I64:
      return f.template operator()<int64_t>(ATALLA_I64);
    case ATALLA_F64:
      return f.template operator()<double>(ATALLA_F64);
    default:
      return f.template operator()<float>(ATALLA_F32);
  }
}

// One pass, one output of the loop dtype.
template <class Op>
struct Plain {
  using First = LanePass<Op>;
  using Second = void;
  using Acc = typename Op::Acc;
  static constexpr bool kOrdered = false;
  Plain(const Launch&, int64_t, atalla_dtype loop_dtype) : dtype(loop_dtype) {}
  void store(const Launch& launch, const ReducePlan& plan, const Block& tile, const Acc* accs, const Acc*) const {
    store_tile(launch, plan, tile, 0, accs, dtype);
  }
  atalla_dtype dtype;
};

// A sum, divided by the number of elements.
template <class T>
struct Mean : Plain<SumOp<T>> {
  Mean(const Launch& launch, int64_t count, atalla_dtype dtype)
      : Plain<SumOp<T>>(launch, count, dtype), divisor(static_cast<double>(count)) {}
  void store(const Launch& launch, const ReducePlan& plan, const Block& tile, T* accs, const T*) const {
    for (int64_t c = 0; c < tile.sizes[0]; ++c) {
      if constexpr (kIsComplex<T>) {
        using R = decltype(T::re);
        accs[c] = {accs[c].re / static_cast<R>(divisor), accs[c].im / static_cast<R>(divisor)};
      } else {
        accs[c] = static_cast<T>(accs[c] / static_cast<T>(divisor));
      }
    }
    store_tile(launch, plan, tile, 0, accs, this->dtype);
  }
  double divisor;
};

// A kernel: the reduction in the type of sums. Kernels of floating and complex dtypes alone have none of integers.
template <template <class> class Reduction, bool kIntegers = true>
atalla_status reduce_in_sum_type(const Launch& launch) {
  return dispatch_accumulation(launch.desc.compute_dtype, [&]<class T>(atalla_dtype dtype) -> atalla_status {
    if constexpr (std::is_integral_v<T> && !kIntegers) {
      return ATALLA_ERR_UNSUPPORTED;  // the table of kernels has refused integers
    } else {
      return run_reduction<Reduction<T>>(launch, dtype);
    }
  });
}
template <template <class> class Reduction>
atalla_status reduce_floats(const Launch& launch) {
  return dispatch_floating(launch.desc.compute_dtype,
                           [&]<class T>(atalla_dtype dtype) { return run_reduction<Reduction<T>>(launch, dtype); });
}
// In the type in which elements are compared.
template <template <class> class Reduction>
atalla_status reduce_ordered(const Launch& launch) {
  return dispatch_ordered(launch.desc.compute_dtype,
                          [&]<class T>(atalla_dtype dtype) { return run_reduction<Reduction<T>>(launch, dtype); });
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
