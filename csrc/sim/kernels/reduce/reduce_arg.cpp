// SPDX-License-Identifier: BSD-3-Clause
//
// argmax, argmin, max_dim, min_dim: the extreme element and its index. The first of equal elements wins; a NaN wins
// over every number.
#include "sim/kernels/reduce/reduce_passes.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <class V>
struct Indexed {
  V value;
  int64_t index;  // -1: no element yet
};

template <class V, bool kMax>
struct ArgPass {
  using T = V;
  using Acc = Indexed<V>;
  using Op = std::conditional_t<kMax, MaxOp<V>, MinOp<V>>;

  static constexpr Acc identity() { return {Op::identity(), -1}; }
  // x stands after `best` in the input and replaces it.
  ATALLA_INLINE static bool better(V x, V best) { return (kMax ? x > best : x < best) | (isnan(x) & !isnan(best)); }
  ATALLA_INLINE static Acc combine(const Acc& a, const Acc& b) {
    if (a.index < 0) return b;
    return b.index >= 0 && better(b.value, a.value) ? b : a;
  }
  // The extreme value by vector lanes, then its place.
  static Acc row(const T* x, int64_t n, int64_t first, const Acc&) {
    const V extreme = LanePass<Op>::row(x, n, first, Op::identity());
    int64_t i = 0;
    if (isnan(extreme)) {
      while (!isnan(x[i])) ++i;
    } else {
      while (x[i] != extreme) ++i;
    }
    return {x[i], first + i};
  }
  static void columns(Acc* acc, const T* x, int64_t stride, int64_t rows, int64_t n, int64_t first, const Acc*) {
    V best[kTileOutputs];
    int32_t place[kTileOutputs];
    for (int64_t c = 0; c < n; ++c) {
      best[c] = x[c];
      place[c] = 0;
    }
    for (int64_t r = 1; r < rows; ++r) {
      const T* row = x + r * stride;
#pragma GCC ivdep
      for (int64_t c = 0; c < n; ++c) {
        const bool take = better(row[c], best[c]);
        best[c] = take ? row[c] : best[c];
        place[c] = take ? static_cast<int32_t>(r) : place[c];
      }
    }
    for (int64_t c = 0; c < n; ++c) acc[c] = combine(acc[c], {best[c], first + place[c]});
  }
};

// The extremes' values are an output too if the launch has two.
template <class V, bool kMax>
struct ArgReduction {
  using First = ArgPass<V, kMax>;
  using Second = void;
  using Acc = Indexed<V>;
  static constexpr bool kOrdered = true;

  ArgReduction(const Launch&, int64_t, atalla_dtype loop_dtype) : dtype(loop_dtype) {}
  void store(const Launch& launch, const ReducePlan& plan, const Block& tile, const Acc* accs, const Acc*) const {
    V values[kTileOutputs];
    int64_t indices[kTileOutputs];
    for (int64_t c = 0; c < tile.sizes[0]; ++c) {
      values[c] = accs[c].value;
      indices[c] = accs[c].index;
    }
    const int outputs = launch.desc.n_outputs;
    if (outputs == 2) store_tile(launch, plan, tile, 0, values, dtype);
    store_tile(launch, plan, tile, outputs - 1, indices, ATALLA_I64);
  }

  atalla_dtype dtype;
};

template <class V>
using ArgMax = ArgReduction<V, true>;
template <class V>
using ArgMin = ArgReduction<V, false>;

template <template <class> class Reduction>
atalla_status run_arg(const Launch& launch) {
  const atalla_operand& in = launch.desc.operands[launch.desc.n_outputs];
  if (element_count(in) == 0 && element_count(launch.desc.operands[0]) > 0) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "the reduced dimension is empty, and no element can be chosen");
  }
  const int n_reduced = __builtin_popcountll(static_cast<uint64_t>(ReduceArgmaxParameters::read(launch.desc).reduced));
  if (n_reduced != 1 && n_reduced != in.ndim) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "{} of {} dimensions are reduced, expected one or all", n_reduced,
                in.ndim);
  }
  return reduce_ordered<Reduction>(launch);
}

}  // namespace

extern constexpr KernelFamily reduce_arg_kernels = {
    {"reduce.argmax", kRealDtypes, run_arg<ArgMax>},
    {"reduce.argmin", kRealDtypes, run_arg<ArgMin>},
    {"reduce.max_dim", kRealDtypes, run_arg<ArgMax>},
    {"reduce.min_dim", kRealDtypes, run_arg<ArgMin>},
};

}  // namespace atalla::sim::ATALLA_ISA
