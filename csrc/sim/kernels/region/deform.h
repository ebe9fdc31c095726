// SPDX-License-Identifier: BSD-3-Clause
//
// Where the elements of a deformed window lie in an image: four neighbours and their weights.
#pragma once

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int kCorners = 4;  // y low x low, y low x high, y high x low, y high x high

// A displaced element. Neighbours outside of the image have no place.
template <class T>
struct DeformedPoint {
  int64_t y[2], x[2];  // low, high; -1 outside
  T upper_y, upper_x;  // the share of the high neighbour
  bool inside;         // closer than one element to the image

  static void neighbours(T at, int64_t size, int64_t* low_high, T* upper) {
    low_high[0] = low_high[1] = -1;
    *upper = T(0);
    if (!(at > T(-2) && at < static_cast<T>(size) + T(1))) return;
    const T floor = static_cast<T>(__builtin_floor(at));
    const int64_t low = static_cast<int64_t>(floor);
    *upper = at - floor;
    if (low >= 0 && low < size) low_high[0] = low;
    if (low + 1 >= 0 && low + 1 < size) low_high[1] = low + 1;
  }
  DeformedPoint(T at_y, T at_x, int64_t height, int64_t width) {
    neighbours(at_y, height, y, &upper_y);
    neighbours(at_x, width, x, &upper_x);
    inside = at_y > T(-1) && at_y < static_cast<T>(height) && at_x > T(-1) && at_x < static_cast<T>(width);
  }
  bool has(int corner) const { return y[corner / 2] >= 0 && x[corner % 2] >= 0; }
  T weight(int corner) const {
    return (corner / 2 ? upper_y : T(1) - upper_y) * (corner % 2 ? upper_x : T(1) - upper_x);
  }
};

// The windows of a launch: [n, g, k, 2, p, q] offsets, [n, g, k, p, q] masks or none.
template <class T, class S>
struct DeformedWindows {
  const Launch& l;
  DeformColumnsParameters p;
  int offset, mask;  // operands
  int64_t height, width;

  T offset_of(int64_t n, int64_t g, int64_t k, int64_t d, int64_t i, int64_t j) const {
    return convert<T>(*l.at<const S>(offset, n, g, k, d, i, j));
  }
  DeformedPoint<T> point(int64_t n, int64_t g, int64_t k, int64_t i, int64_t j) const {
    const int64_t y = i * p.stride[0] - p.padding[0] + k / p.kernel[1] * p.dilation[0];
    const int64_t x = j * p.stride[1] - p.padding[1] + k % p.kernel[1] * p.dilation[1];
    return {static_cast<T>(y) + offset_of(n, g, k, 0, i, j), static_cast<T>(x) + offset_of(n, g, k, 1, i, j), height,
            width};
  }
  T factor(int64_t n, int64_t g, int64_t k, int64_t i, int64_t j) const {
    if (l.data[mask] == nullptr) return T(1);
    return convert<T>(*l.at<const S>(mask, n, g, k, i, j));
  }
};

// That windows have elements, and that groups of offsets divide the channels of the image.
inline atalla_status check_deformed(const Launch& l, const DeformColumnsParameters& p, int image, int offset) {
  const int64_t channels = l.operand(image).sizes[1], groups = l.operand(offset).sizes[1];
  if (p.kernel[0] > 0 && p.kernel[1] > 0 && groups > 0 && channels % groups == 0) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT,
              "{} channels with {} groups of offsets and windows of {} x {} elements, expected groups of equal size "
              "and windows that are not empty",
              channels, groups, p.kernel[0], p.kernel[1]);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
