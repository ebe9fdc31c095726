// SPDX-License-Identifier: BSD-3-Clause
//
// Where an output index of a resampling falls in the input, in the arithmetic that upstream uses
// (ATen/native/UpSample.h): F32 for all dtypes but F64, else samples that lie on a boundary move.
#pragma once

#include <cstdint>

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// `factor` is the caller's scale factor; not positive: none given.
template <class T>
inline T sample_scale(int64_t in, int64_t out, double factor) {
  return factor > 0 ? static_cast<T>(1.0 / factor) : static_cast<T>(in) / static_cast<T>(out);
}

template <class T>
inline T sample_scale(int64_t in, int64_t out, bool align_corners, double factor) {
  if (!align_corners) return sample_scale<T>(in, out, factor);
  return out > 1 ? static_cast<T>(in - 1) / static_cast<T>(out - 1) : T(0);
}

inline float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }

template <class T>
inline T sample_position(T scale, int64_t index, bool align_corners, bool cubic) {
  if (align_corners) return scale * static_cast<T>(index);
  // With one rounding, as upstream's kernels are compiled: a weight that becomes 0 makes an infinity NaN.
  const T x = multiply_add(scale, static_cast<T>(index) + T(0.5), T(-0.5));
  return !cubic && x < T(0) ? T(0) : x;
}

// Upstream has two implementations of each mode, which differ in the last place: the general one, and one for small
// images and for channels_last ones.
template <class T>
inline int64_t nearest_index(NearestMode mode, int64_t i, int64_t in, int64_t out, double factor) {
  int64_t x = 0;
  switch (mode) {
    case NearestMode::kFloor:
      x = static_cast<int64_t>(
          __builtin_floorf(static_cast<float>(sample_scale<T>(in, out, factor) * static_cast<T>(i))));
      break;
    case NearestMode::kExact:
      x = static_cast<int64_t>(__builtin_floorf(static_cast<float>(
          static_cast<double>(sample_position(sample_scale<T>(in, out, factor), i, false, false)) + 0.5)));
      break;
    case NearestMode::kFloorSmall:
      if (out == in) return i;
      if (out == 2 * in) return i >> 1;
      x = static_cast<int64_t>(__builtin_floorf(static_cast<float>(i) * sample_scale<float>(in, out, factor)));
      break;
    case NearestMode::kExactSmall:
      x = static_cast<int64_t>(__builtin_floorf(static_cast<float>(
          (static_cast<double>(i) + 0.5) * static_cast<double>(sample_scale<float>(in, out, factor)))));
      break;
  }
  return x < in - 1 ? x : in - 1;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
