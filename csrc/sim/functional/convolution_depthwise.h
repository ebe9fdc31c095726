// SPDX-License-Identifier: BSD-3-Clause
//
// Convolution of one output channel on its own (one output channel a group): there is no reuse across channels that a
// matrix product could exploit, so every tap adds a shifted image row to a row of accumulators. The order of additions
// is that of the matrix product: channels, then taps.
#pragma once

#include "convolution_shape.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int64_t kDepthwiseColumns = 512;

// acc[0 .. count) = outputs (z, y, x .. x + count) of one channel; `weights` are depth() values of T, `image` the first
// input channel of its group. count is at most kDepthwiseColumns.
template <class T>
inline void depthwise_row(const ConvolutionShape& s, const ConvolutionTensor& in, const char* image, const T* weights,
                          int64_t z, int64_t y, int64_t x, int64_t count, T* acc) {
  T line[kDepthwiseColumns];
  for (int64_t i = 0; i < count; ++i) acc[i] = T(0);
  for (int64_t c = 0; c < s.in_per_group(); ++c) {
    for (int64_t kz = 0; kz < s.kernel[0]; ++kz) {
      const int64_t iz = z * s.stride[0] - s.padding[0] + kz * s.dilation[0];
      for (int64_t ky = 0; ky < s.kernel[1]; ++ky) {
        const int64_t iy = y * s.stride[1] - s.padding[1] + ky * s.dilation[1];
        const bool outside = iz < 0 || iz >= s.in[0] || iy < 0 || iy >= s.in[1];
        for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
          const T w = *weights++;
          if (outside) continue;
          const int64_t x0 = x * s.stride[2] - s.padding[2] + kx * s.dilation[2];
          int64_t begin, end;
          inside_range(count, s.stride[2], x0, s.in[2], begin, end);
          if (begin >= end) continue;
          const int64_t offset =
              c * in.strides[1] + iz * in.strides[2] + iy * in.strides[3] + (x0 + begin * s.stride[2]) * in.strides[4];
          const int64_t step = s.stride[2] * in.strides[4];
          const T* values = reinterpret_cast<const T*>(image + offset * in.item);
          if (in.dtype != kNativeDtype<T> || step != 1) {
            load_run(image + offset * in.item, in.dtype, step, end - begin, line);
            values = line;
          }
          for (int64_t i = begin; i < end; ++i) acc[i] += w * values[i - begin];
        }
      }
    }
  }
}

}  // namespace atalla::sim::ATALLA_ISA
