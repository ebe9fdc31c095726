// SPDX-License-Identifier: BSD-3-Clause
//
// Two-pass reductions: var, std, var_mean (the mean, then squared distances from it) and logsumexp (the largest, then
// exponentials relative to it).
#include "sim/kernels/reduce/reduce_passes.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

enum class Statistic { kVar, kStd, kVarMean };

template <class T, Statistic kStatistic>
struct Variance {
  using First = LanePass<SumOp<T>>;
  using Second = LanePass<SquaredDistanceOp<T>>;
  static constexpr bool kOrdered = false;

  using R = typename RealOf<T>::Type;

  Variance(const Launch& launch, int64_t n, atalla_dtype loop_dtype) : dtype(loop_dtype), count(static_cast<R>(n)) {
    const double left = static_cast<double>(n) - ReduceVarParameters::read(launch.desc).correction;
    divisor = static_cast<R>(left > 0 ? left : 0);
  }
  T param(T sum) const {
    if constexpr (kIsComplex<T>) return {sum.re / count, sum.im / count};
    else return sum / count;
  }
  // Of complex numbers: the sum of the variances of both parts, a real number (the store drops its imaginary part).
  void store(const Launch& launch, const ReducePlan& plan, const Block& tile, T* accs, const T* means) const {
    for (int64_t c = 0; c < tile.sizes[0]; ++c) {
      R variance;
      if constexpr (kIsComplex<T>) variance = accs[c].re / divisor;
      else variance = accs[c] / divisor;
      if (kStatistic == Statistic::kStd) variance = sqrt(variance);
      if constexpr (kIsComplex<T>) accs[c] = {variance, 0};
      else accs[c] = variance;
    }
    store_tile(launch, plan, tile, 0, accs, dtype);
    if constexpr (kStatistic == Statistic::kVarMean) store_tile(launch, plan, tile, 1, means, dtype);
  }

  atalla_dtype dtype;
  R count;
  R divisor;
};

template <class T>
struct LogSumExp {
  using First = LanePass<MaxOp<T>>;
  using Second = LanePass<ShiftedExpOp<T>>;
  static constexpr bool kOrdered = false;

  LogSumExp(const Launch&, int64_t, atalla_dtype loop_dtype) : dtype(loop_dtype) {}
  T param(T largest) const { return isinf(largest) ? T(0) : largest; }
  void store(const Launch& launch, const ReducePlan& plan, const Block& tile, T* accs, const T* shifts) const {
    for (int64_t c = 0; c < tile.sizes[0]; ++c) accs[c] = std::log(accs[c]) + shifts[c];
    store_tile(launch, plan, tile, 0, accs, dtype);
  }

  atalla_dtype dtype;
};

template <class T>
using Var = Variance<T, Statistic::kVar>;
template <class T>
using Std = Variance<T, Statistic::kStd>;
template <class T>
using VarMean = Variance<T, Statistic::kVarMean>;

}  // namespace

extern constexpr KernelFamily reduce_statistics_kernels = {
    {"reduce.logsumexp", kFloatDtypes, reduce_floats<LogSumExp>},
    {"reduce.var", kFloatDtypes | kComplexDtypes, reduce_in_sum_type<Var, false>},
    {"reduce.std", kFloatDtypes | kComplexDtypes, reduce_in_sum_type<Std, false>},
    {"reduce.var_mean", kFloatDtypes | kComplexDtypes, reduce_in_sum_type<VarMean, false>},
};

}  // namespace atalla::sim::ATALLA_ISA
