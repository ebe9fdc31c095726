// SPDX-License-Identifier: BSD-3-Clause
//
// Images as the kernels of pooling and resampling see them: [n, c, d, h, w], whatever the number of spatial dimensions.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

inline constexpr int kImageDims = 5;

// An operand of a launch. `spatial` trailing dimensions of the tensor become the last of d, h, w; a missing batch or
// channel dimension has size 1.
struct Image {
  Image(const Tensor& t, int64_t spatial) : tensor(t) {
    sizes.fill(1);
    strides.fill(0);
    if (!t.defined()) return;
    const IntArrayRef t_sizes = t.sizes(), t_strides = t.strides();
    const int64_t dims = t.dim(), leading = dims - spatial;
    for (int64_t d = 0; d < dims; ++d) {
      const int64_t place = d < leading ? 2 - leading + d : kImageDims - dims + d;
      sizes[place] = t_sizes[d];
      strides[place] = t_strides[d];
    }
  }
  operator Operand() const { return {tensor, sizes, strides}; }
  const Tensor& tensor;
  std::array<int64_t, kImageDims> sizes, strides;
};

// A parameter of d, h, w: `values` holds one for all `spatial` dimensions, or one each; those that are missing are
// `rest`.
inline void set_spatial(int64_t (&parameter)[3], IntArrayRef values, int64_t spatial, int64_t rest) {
  for (int64_t d = 0; d < 3; ++d) {
    const int64_t given = d - (3 - spatial);
    parameter[d] = given < 0 ? rest : values.size() == 1 ? values[0] : values[given];
  }
}
inline std::array<int64_t, 3> spatial_parameter(IntArrayRef values, int64_t spatial, int64_t rest) {
  int64_t p[3];
  set_spatial(p, values, spatial, rest);
  return {p[0], p[1], p[2]};
}

// Sizes of an image with other spatial sizes.
inline DimVector with_spatial(const Tensor& t, IntArrayRef spatial) {
  DimVector sizes(t.sizes().slice(0, t.dim() - spatial.size()));
  sizes.append(spatial.begin(), spatial.end());
  return sizes;
}

// The windows of a regular pool: PoolMaxParameters or PoolAverageParameters.
template <class Parameters>
void set_windows(Parameters& parameters, int64_t spatial, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding) {
  set_spatial(parameters.kernel, kernel, spatial, 1);
  set_spatial(parameters.stride, stride.empty() ? kernel : stride, spatial, 1);
  set_spatial(parameters.padding, padding, spatial, 0);
}

// Scale factors of the last dimensions; 0 where none is given.
inline void set_scales(double (&parameter)[3], std::initializer_list<std::optional<double>> scales) {
  double* last = std::end(parameter) - scales.size();
  for (const std::optional<double>& scale : scales) *last++ = scale.value_or(0);
}

// Pairs of padding count from the last of `dims` dimensions.
inline PadReflectParameters pad_parameters(int64_t dims, IntArrayRef padding) {
  PadReflectParameters parameters{};
  for (size_t k = 0; k < padding.size() / 2; ++k) parameters.front[dims - 1 - static_cast<int64_t>(k)] = padding[2 * k];
  return parameters;
}

// The memory format of an image op's result: upstream's suggestion, which only batches have.
inline MemoryFormat image_format(const Tensor& t, int64_t spatial) {
  return t.dim() == spatial + 2 ? t.suggest_memory_format() : MemoryFormat::Contiguous;
}

}  // namespace atalla::aten
