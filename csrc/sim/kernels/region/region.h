// SPDX-License-Identifier: BSD-3-Clause
//
// Regions of images, [k, 5] with the image, x1, y1, x2 and y2, and how their bins lie on the elements of an image.
#pragma once

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Rounded as the host's conversion to int does, which gives the smallest int for what does not fit.
template <class T>
int64_t to_int(T x) {
  constexpr int64_t kSmallest = -(int64_t{1} << 31);
  return x > T(kSmallest) && x < T(-kSmallest) ? static_cast<int64_t>(x) : kSmallest;
}

// The regions of a launch, whose coordinates become elements by the factor `scale`.
template <class T, class S>
struct Regions {
  const Launch& l;
  int index;
  T scale;

  T value(int64_t k, int64_t column) const { return convert<T>(*l.at<const S>(index, k, column)); }
  int64_t count() const { return l.operand(index).sizes[0]; }
  int64_t image(int64_t k) const { return to_int(value(k, 0)); }
  // Of dimension 0 (y) or 1 (x).
  T begin(int64_t k, int d) const { return value(k, 2 - d) * scale; }
  T end(int64_t k, int d) const { return value(k, 4 - d) * scale; }

  atalla_status check(int64_t images) const {
    for (int64_t k = 0; k < count(); ++k) {
      if (image(k) >= 0 && image(k) < images) continue;
      return fail(l, ATALLA_ERR_FAULT_INDEX, "region {} is of image {}, expected one of {} images", k, value(k, 0),
                  images);
    }
    return ATALLA_OK;
  }
};

// Calls body with the regions in an operand, whose images are the first dimension of another one, unless operand
// `result` is empty. The body returns false without memory.
template <class F>
atalla_status with_regions(const Launch& l, int regions, double scale, int images, int result, F&& body) {
  return with_float_types(l.operand(result).dtype, [&]<class T, class S>(T, S) {
    const Regions<T, S> all{l, regions, static_cast<T>(scale)};
    ATALLA_CHECK(all.check(l.operand(images).sizes[0]));
    return memory_status(l, element_count(l.operand(result)) == 0 || body(all));
  });
}

// The elements [begin, end) of bin `b` of a region of rounded coordinates, which has at least one element, clipped to
// [0, limit]. `extra`: elements that the region has beyond the difference of its coordinates.
struct RoundedBins {
  int64_t start, bins;
  double size;  // of a bin

  template <class T>
  RoundedBins(T begin, T end, int64_t extra, int64_t count) : start(to_int(rounded(begin))), bins(count) {
    const int64_t extent = to_int(rounded(end)) - start + extra;
    size = static_cast<double>(static_cast<T>(extent < 1 ? 1 : extent) / static_cast<T>(count));
  }
  static float rounded(float x) { return __builtin_roundf(x); }
  static double rounded(double x) { return __builtin_round(x); }

  // In the arithmetic of T, in which the product is rounded.
  template <class T>
  int64_t edge(int64_t b, bool up) const {
    const double at = static_cast<double>(static_cast<T>(b) * static_cast<T>(size));
    return start + to_int(up ? __builtin_ceil(at) : __builtin_floor(at));
  }
  template <class T>
  void of(int64_t b, int64_t limit, int64_t* from, int64_t* to) const {
    *from = clipped(edge<T>(b, false), limit);
    *to = clipped(edge<T>(b + 1, true), limit);
  }
  static int64_t clipped(int64_t x, int64_t limit) { return x < 0 ? 0 : x < limit ? x : limit; }
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
