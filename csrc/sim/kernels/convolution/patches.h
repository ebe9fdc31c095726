// SPDX-License-Identifier: BSD-3-Clause
//
// The input of a convolution as operand B of a matrix product [in channels x taps, positions]: panels are packed from
// the image when the product wants them, the matrix as a whole never exists.
#pragma once

#include "sim/kernels/convolution/shape.h"

namespace atalla::sim::ATALLA_ISA {

template <class T>
struct PatchSource {
  const ConvolutionShape& shape;
  const ConvolutionTensor& in;
  const char* image;  // first channel of the group in this batch element
  T outside;

  const T* in_place(int64_t, int64_t) const { return nullptr; }
  bool is_readable_in_place() const { return false; }
  int64_t row_stride() const { return 0; }

  // Consecutive outputs of one image row.
  struct Run {
    int64_t column, count, z, y, x;
  };

  // Rows p .. p + depth of columns j .. j + cols as panels of `depth` rows each, the last one zero-padded.
  void pack(int64_t p, int64_t depth, int64_t j, int64_t cols, T* dst) const {
    constexpr int64_t panel = kPanel<T>;
    for (; cols > 0; cols -= panel, j += panel, dst += panel * depth) {
      pack_panel(p, depth, j, min_of(panel, cols), dst);
    }
  }

 private:
  void pack_panel(int64_t p, int64_t depth, int64_t j, int64_t cols, T* dst) const {
    constexpr int64_t panel = kPanel<T>;
    Run runs[panel];
    int count = 0;
    for (int64_t c = 0; c < cols;) {
      Run& run = runs[count++];
      const int64_t position = j + c;
      run.column = c;
      run.x = position % shape.out[2];
      run.y = position / shape.out[2] % shape.out[1];
      run.z = position / shape.out[2] / shape.out[1];
      run.count = min_of(cols - c, shape.out[2] - run.x);
      c += run.count;
    }
    const int64_t area = shape.kernel[1] * shape.kernel[2];
    int64_t channel = p / shape.taps(), tap = p % shape.taps();
    for (int64_t row = 0; row < depth; ++row, dst += panel) {
      const int64_t kz = tap / area, ky = tap / shape.kernel[2] % shape.kernel[1], kx = tap % shape.kernel[2];
      const char* plane = image + channel * in.strides[1] * in.item;
      for (int i = 0; i < count; ++i) pack_run(runs[i], plane, kz, ky, kx, dst + runs[i].column);
      for (int64_t c = cols; c < panel; ++c) dst[c] = T(0);
      if (++tap == shape.taps()) tap = 0, ++channel;
    }
  }

  void pack_run(const Run& run, const char* plane, int64_t kz, int64_t ky, int64_t kx, T* dst) const {
    const int64_t z = run.z * shape.stride[0] - shape.padding[0] + kz * shape.dilation[0];
    const int64_t y = run.y * shape.stride[1] - shape.padding[1] + ky * shape.dilation[1];
    int64_t begin = 0, end = 0;
    const int64_t x0 = run.x * shape.stride[2] - shape.padding[2] + kx * shape.dilation[2];
    if (z >= 0 && z < shape.in[0] && y >= 0 && y < shape.in[1]) {
      inside_range(run.count, shape.stride[2], x0, shape.in[2], begin, end);
    }
    for (int64_t c = 0; c < begin; ++c) dst[c] = outside;
    if (end > begin) {
      const int64_t offset = z * in.strides[2] + y * in.strides[3] + (x0 + begin * shape.stride[2]) * in.strides[4];
      const int64_t step = shape.stride[2] * in.strides[4];
      const char* src = plane + offset * in.item;
      if (in.dtype == kNativeOf<T>) {
        const T* values = reinterpret_cast<const T*>(src);
        if (step == 1) {
          for (int64_t c = begin; c < end; ++c) dst[c] = values[c - begin];
        } else {
          for (int64_t c = begin; c < end; ++c) dst[c] = values[(c - begin) * step];
        }
      } else {
        load_run(src, in.dtype, step, end - begin, dst + begin);
      }
    }
    for (int64_t c = max_of(begin, end); c < run.count; ++c) dst[c] = outside;
  }
};

}  // namespace atalla::sim::ATALLA_ISA
