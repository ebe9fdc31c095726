// SPDX-License-Identifier: BSD-3-Clause
//
// cdist and pdist: distances of rows in the p-norm. cross: the vector product along a dimension of three.
#include <cmath>

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Cross = CrossOperands;

using Pdist = PdistOperands;

using Cdist = CdistOperands;

constexpr int kLanes = 16;

enum class Norm { Zero, One, Two, Infinity, Other };

Norm norm_of(double p) {
  if (p == 0) return Norm::Zero;
  if (p == 1) return Norm::One;
  if (p == 2) return Norm::Two;
  return std::isinf(p) ? Norm::Infinity : Norm::Other;
}

// The distance of two contiguous rows: lanes of partial results, combined as a tree.
template <class T, Norm kNorm>
T distance(const T* a, const T* b, int64_t k, T p) {
  auto map = [p](T x, T y) {
    const T d = std::fabs(x - y);
    if constexpr (kNorm == Norm::Zero) return std::isnan(d) ? d : static_cast<T>(d != 0);
    else if constexpr (kNorm == Norm::Two) return d * d;
    else if constexpr (kNorm == Norm::Other) return std::pow(d, p);
    else return d;
  };
  auto combine = [](T x, T y) {
    if constexpr (kNorm == Norm::Infinity) return (x > y) | (x != x) ? x : y;  // a NaN stays
    else return x + y;
  };
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = combine(map(a[i + l], b[i + l]), lanes[l]);
  }
  for (int l = 0; i + l < k; ++l) lanes[l] = combine(map(a[i + l], b[i + l]), lanes[l]);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lanes[l] = combine(lanes[l + width], lanes[l]);
  }
  if constexpr (kNorm == Norm::Two) return std::sqrt(lanes[0]);
  else if constexpr (kNorm == Norm::Other) return std::pow(lanes[0], 1 / p);
  else return lanes[0];
}

template <class F>
void dispatch_distance(atalla_dtype dtype, double p, F&& f) {
  auto by_norm = [&]<class T>(T) {
    switch (norm_of(p)) {
      case Norm::Zero:
        return f(T{}, distance<T, Norm::Zero>);
      case Norm::One:
        return f(T{}, distance<T, Norm::One>);
      case Norm::Two:
        return f(T{}, distance<T, Norm::Two>);
      case Norm::Infinity:
        return f(T{}, distance<T, Norm::Infinity>);
      case Norm::Other:
        return f(T{}, distance<T, Norm::Other>);
    }
  };
  if (dtype == ATALLA_F64) by_norm(double{});
  else by_norm(float{});
}

atalla_status check_order(const Launch& l, double p) {
  if (p >= 0) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "p is {}, expected at least 0", p);
}

// out [b, m, n] of rows [b, m, k] and [b, n, k].
atalla_status run_cdist(const Launch& l) {
  const double order = CdistParameters::read(l.desc).p;
  ATALLA_CHECK(check_order(l, order));
  const atalla_operand &out = l.operand(Cdist::kOut), &x = l.operand(Cdist::kX), &y = l.operand(Cdist::kY);
  const int64_t m = x.sizes[1], n = y.sizes[1], k = x.sizes[2];
  if (element_count(out) == 0) return ATALLA_OK;
  dispatch_distance(out.dtype, order, [&]<class T>(T, auto measure) {
    const T p = static_cast<T>(order);
    parallel_for(out.sizes[0] * m, grain_for(n * (k + 4)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t b = r / m, i = r % m;
        const T* a = l.at<const T>(Cdist::kX, b, i);
        T* o = l.at<T>(Cdist::kOut, b, i);
        for (int64_t j = 0; j < n; ++j) {
          o[j * out.strides[2]] = measure(a, l.at<const T>(Cdist::kY, b, j), k, p);
        }
      }
    });
  });
  return ATALLA_OK;
}

// out [n (n - 1) / 2]: the pairs i < j of rows [n, k], i first.
atalla_status run_pdist(const Launch& l) {
  const double order = PdistParameters::read(l.desc).p;
  ATALLA_CHECK(check_order(l, order));
  const atalla_operand &out = l.operand(Pdist::kOut), &x = l.operand(Pdist::kX);
  const int64_t n = x.sizes[0], k = x.sizes[1];
  if (out.sizes[0] == 0) return ATALLA_OK;
  dispatch_distance(out.dtype, order, [&]<class T>(T, auto measure) {
    const T p = static_cast<T>(order);
    parallel_for(n - 1, grain_for(n / 2 * (k + 4)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* a = l.at<const T>(Pdist::kX, i);
        T* o = l.at<T>(Pdist::kOut, (i * (2 * n - i - 1) / 2 - i - 1));
        for (int64_t j = i + 1; j < n; ++j) {
          o[j * out.strides[0]] = measure(a, l.at<const T>(Pdist::kX, j), k, p);
        }
      }
    });
  });
  return ATALLA_OK;
}

template <class C>
[[gnu::always_inline]] inline C multiply_difference(C a, C b, C c, C d) {
  if constexpr (kIsComplex<C>) {
    return {a.re * b.re - a.im * b.im - (c.re * d.re - c.im * d.im),
            a.re * b.im + a.im * b.re - (c.re * d.im + c.im * d.re)};
  } else if constexpr (std::is_integral_v<C>) {
    using U = uint64_t;
    return static_cast<C>(static_cast<U>(a) * static_cast<U>(b) - static_cast<U>(c) * static_cast<U>(d));
  } else {
    return a * b - c * d;
  }
}

template <class S>
void cross(const Launch& l, int64_t dim) {
  using C = std::conditional_t<kIsHalf<S>, float, S>;
  const atalla_operand& out = l.operand(Pdist::kOut);
  Dims<3> dims;
  int64_t step[3];
  for (int k = 0; k < 3; ++k) step[k] = l.operand(k).strides[dim];
  for (int d = 0; d < out.ndim; ++d) {
    if (d != dim)
      dims.add(out.sizes[d], out.strides[d], l.operand(Cross::kA).strides[d], l.operand(Cross::kB).strides[d]);
  }
  int64_t s[3];
  const int64_t length = dims.pop(s);
  parallel_for(dims.count(), grain_for(6 * length), [&](int64_t begin, int64_t end) {
    Cursor<3> at(dims, begin);
    for (int64_t r = begin; r < end; ++r, at.next()) {
      S* o = l.ptr<S>(Cross::kOut) + at.offsets[0];
      const S *a = l.ptr<const S>(Cross::kA) + at.offsets[1], *b = l.ptr<const S>(Cross::kB) + at.offsets[2];
      for (int64_t i = 0; i < length; ++i, o += s[0], a += s[1], b += s[2]) {
        C u[3], v[3];
        for (int k = 0; k < 3; ++k) u[k] = convert<C>(a[k * step[1]]), v[k] = convert<C>(b[k * step[2]]);
        for (int k = 0; k < 3; ++k) {
          const int m = (k + 1) % 3, n = (k + 2) % 3;
          o[k * step[0]] = convert<S>(multiply_difference(u[m], v[n], u[n], v[m]));
        }
      }
    }
  });
}

atalla_status run_cross(const Launch& l) {
  const atalla_operand& out = l.operand(Cross::kOut);
  const int64_t dim = CrossParameters::read(l.desc).dim;
  if (element_count(out) == 0) return ATALLA_OK;
  dispatch_dtype(out.dtype, [&]<class S>(S) {
    if constexpr (!std::is_same_v<S, BoolByte>) cross<S>(l, dim);
  });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily distance_kernels = {
    {"cdist", kWideFloatDtypes, run_cdist},
    {"pdist", kWideFloatDtypes, run_pdist},
    {"cross", kAllDtypes & ~dtype_bit(ATALLA_BOOL), run_cross},
};

}  // namespace atalla::sim::ATALLA_ISA
