// SPDX-License-Identifier: BSD-3-Clause
//
// Images as the kernels of pooling and resampling see them: [n, c, d, h, w], whatever the number of spatial dimensions.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>

#include "aten/launch.h"

namespace atalla::aten {

inline constexpr int kImageDims = 5;

struct ImageView {
  std::array<int64_t, kImageDims> sizes, strides;
};

// `spatial` trailing dimensions become the last of d, h, w; a missing batch or channel dimension has size 1.
inline ImageView image_view(const at::Tensor& t, int64_t spatial) {
  ImageView v;
  v.sizes.fill(1);
  v.strides.fill(0);
  const int64_t leading = t.dim() - spatial;
  for (int64_t d = 0; d < leading; ++d) {
    v.sizes[2 - leading + d] = t.size(d);
    v.strides[2 - leading + d] = t.stride(d);
  }
  for (int64_t d = 0; d < spatial; ++d) {
    v.sizes[kImageDims - spatial + d] = t.size(leading + d);
    v.strides[kImageDims - spatial + d] = t.stride(leading + d);
  }
  return v;
}

inline LaunchBuilder& image_output(LaunchBuilder& builder, const at::Tensor& t, int64_t spatial) {
  const ImageView v = image_view(t, spatial);
  return builder.output(t, v.sizes, v.strides);
}
inline LaunchBuilder& image_input(LaunchBuilder& builder, const at::Tensor& t, int64_t spatial) {
  const ImageView v = image_view(t, spatial);
  return builder.input(t, v.sizes, v.strides);
}

// A parameter of d, h, w: `values` holds one for all `spatial` dimensions, or one each; those that are missing are
// `rest`.
inline std::array<int64_t, 3> spatial_parameter(at::IntArrayRef values, int64_t spatial, int64_t rest) {
  std::array<int64_t, 3> p = {rest, rest, rest};
  for (int64_t d = 0; d < spatial; ++d) {
    p[3 - spatial + d] = values.size() == 1 ? values[0] : values[d];
  }
  return p;
}

inline void set_parameters(LaunchBuilder& builder, int first, const std::array<int64_t, 3>& p) {
  for (int d = 0; d < 3; ++d) builder.iparam(first + d, p[d]);
}

// The memory format of an image op's result: upstream's suggestion, which only batches have.
inline at::MemoryFormat image_format(const at::Tensor& t, int64_t spatial) {
  return t.dim() == spatial + 2 ? t.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

}  // namespace atalla::aten
