// SPDX-License-Identifier: BSD-3-Clause
//
// Where the points of a sampling grid fall in an image: up to 64 taps a point, each an offset and a weight.
#pragma once

#include "sim/kernels/image/image.h"
#include "sim/kernels/image/resample_taps.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kGridBlock = 64;  // points whose taps are worked out together
constexpr int kGridTaps = 64;

// One dimension of the image.
template <class T>
struct GridAxis {
  int64_t size, stride;  // stride in elements of the image
  bool align_corners;
  GridPadding padding;

  // From [-1, 1] to elements.
  T scale() const { return static_cast<T>(align_corners ? size - 1 : size) / 2; }
  T place(T x) const { return align_corners ? (x + 1) * scale() : (x + 1) * scale() - T(0.5); }

  T clip(T x) const {
    const T high = static_cast<T>(size - 1), y = x > 0 ? x : T(0);
    return y < high ? y : high;
  }
  T reflect(T x) const {
    const T low = align_corners ? T(0) : T(-0.5), span = static_cast<T>(align_corners ? size - 1 : size) * 2;
    if (span == 0) return 0;
    const T distance = x > low ? x - low : low - x;
    const T extra = distance - static_cast<T>(__builtin_trunc(distance / span)) * span;
    return (extra < span - extra ? extra : span - extra) + low;
  }
  T pad(T x) const {
    switch (padding) {
      case GridPadding::kBorder:
        return clip(x);
      case GridPadding::kReflection:
        return clip(reflect(x));
      default:
        return x;
    }
  }
  // The derivative of pad(x). Where x leaves the image it is clipped, and the border counts as outside.
  T pad_slope(T x) const {
    T slope = 1;
    if (padding == GridPadding::kReflection) {
      const T low = align_corners ? T(0) : T(-0.5), span = static_cast<T>(align_corners ? size - 1 : size) * 2;
      if (span == 0) return 0;
      const T distance = x > low ? x - low : low - x;
      const T extra = distance - static_cast<T>(__builtin_trunc(distance / span)) * span;
      slope = (x > low) == (extra < span - extra) ? T(1) : T(-1);
      x = reflect(x);
    }
    if (padding == GridPadding::kZeros) return 1;
    return x > 0 && x < static_cast<T>(size - 1) ? slope : T(0);
  }
  // Offset of element x; -1 outside of the image, and where x is NaN.
  int64_t offset(T x) const { return x > T(-1) && x < static_cast<T>(size) ? static_cast<int64_t>(x) * stride : -1; }
};

// The taps of one point along one dimension. The slopes are the weights' derivatives by the grid's coordinate; only
// gradients want them.
template <class T>
struct AxisTaps {
  int64_t offset[4];
  T weight[4];
  T slope[4];
  int count;
};

// Derivatives of cubic_near and cubic_far.
template <class T>
inline T cubic_near_slope(T x, T a) {
  return (3 * (a + 2) * x - 2 * (a + 3)) * x;
}
template <class T>
inline T cubic_far_slope(T x, T a) {
  return (3 * a * x - 10 * a) * x + 8 * a;
}

template <class T>
inline AxisTaps<T> axis_taps(const GridAxis<T>& axis, GridMode mode, T coordinate) {
  AxisTaps<T> t;
  const T x = axis.place(coordinate);
  if (mode == GridMode::kCubic) {
    const T floor = static_cast<T>(__builtin_floor(x)), f = x - floor, a = T(-0.75);
    const T weights[4] = {cubic_far(f + 1, a), cubic_near(f, a), cubic_near(1 - f, a), cubic_far(1 - f + 1, a)};
    const T scale = axis.scale();
    const T s[4] = {cubic_far_slope(f + 1, a), cubic_near_slope(f, a), -cubic_near_slope(1 - f, a),
                    -cubic_far_slope(1 - f + 1, a)};
    t.count = 4;
    for (int k = 0; k < 4; ++k) {
      t.weight[k] = weights[k], t.slope[k] = s[k] * scale;
      t.offset[k] = axis.offset(axis.pad(floor + static_cast<T>(k - 1)));
    }
    return t;
  }
  const T p = axis.pad(x);
  if (mode == GridMode::kNearest) {
    t.count = 1;
    t.weight[0] = 1, t.slope[0] = 0;
    t.offset[0] = axis.offset(static_cast<T>(__builtin_nearbyint(p)));
    return t;
  }
  const T floor = static_cast<T>(__builtin_floor(p));
  t.count = 2;
  t.weight[1] = p - floor;
  t.weight[0] = 1 - t.weight[1];
  t.slope[1] = axis.scale() * axis.pad_slope(x);
  t.slope[0] = -t.slope[1];
  t.offset[0] = axis.offset(floor);
  t.offset[1] = axis.offset(floor + 1);
  return t;
}

// That the grid has points of two or three coordinates, and `image` elements to sample.
inline atalla_status check_grid(const Launch& l, const atalla_operand& grid, const atalla_operand& image) {
  bool fits = grid.sizes[4] == 2 || grid.sizes[4] == 3;
  for (int d = 0; d < kSpatialDims && fits; ++d) fits = image.sizes[2 + d] > 0;
  if (fits) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT,
              "points of {} coordinates in an image [{}, {}, {}], expected 2 or 3 and an image that is not empty",
              grid.sizes[4], image.sizes[2], image.sizes[3], image.sizes[4]);
}

// Taps of a block of points: [tap][point], so that points are the lanes.
template <class T>
struct GridTaps {
  int count = 0;
  int64_t offset[kGridTaps][kGridBlock];
  T weight[kGridTaps][kGridBlock];
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
