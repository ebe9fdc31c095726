// SPDX-License-Identifier: BSD-3-Clause
//
// Images as pooling and resampling see them: [n, c, d, h, w], sizes of 1 where there are fewer spatial dimensions.
#pragma once

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int kImageDims = 5;
constexpr int kSpatialDims = 3;

struct Image {
  char* data;
  atalla_dtype dtype;
  int64_t item;
  const int64_t* strides;

  char* at(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) const {
    return data + (n * strides[0] + c * strides[1] + d * strides[2] + h * strides[3] + w * strides[4]) * item;
  }
};

inline Image image_of(const Launch& l, int i) {
  const atalla_operand& o = l.operand(i);
  return {l.ptr<char>(i), o.dtype, static_cast<int64_t>(dtype_size(o.dtype)), o.strides};
}

// n elements from `from` as T: in place where they lie so, else in `buffer`.
template <class T>
inline const T* load_row(const Image& image, const char* from, int64_t stride, int64_t n, T* buffer) {
  if (stride == 1 && image.dtype == kNativeOf<T>) return reinterpret_cast<const T*>(from);
  load_run(from, image.dtype, stride, n, buffer);
  return buffer;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
