// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/native/GridSamplerUtils.h>

#include "aten/empty.h"
#include "aten/launch.h"
#include "spatial.h"

namespace atalla::aten {

namespace {

const Kernel kGridSample("grid_sample");

at::Tensor grid_sample(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation_mode,
                       int64_t padding_mode, bool align_corners) {
  const int64_t spatial = input.dim() - 2;
  TORCH_CHECK(grid.scalar_type() == input.scalar_type(), "expected scalar type ", input.scalar_type(), " but found ",
              grid.scalar_type());
  at::DimVector sizes(input.sizes().slice(0, 2));
  for (int64_t d = 0; d < spatial; ++d) sizes.push_back(grid.size(1 + d));
  const at::Tensor out = empty_like_dtype(input, sizes, input.scalar_type());
  if (out.numel() == 0) return out;
  LaunchBuilder builder(kGridSample, input.scalar_type());
  image_output(builder, out, spatial);
  image_input(builder, input, spatial);
  at::DimVector grid_sizes(grid.sizes()), grid_strides(grid.strides());
  if (spatial == 2) {
    grid_sizes.insert(grid_sizes.begin() + 1, 1);
    grid_strides.insert(grid_strides.begin() + 1, 0);
  }
  builder.input(grid, grid_sizes, grid_strides)
      .iparam(0, interpolation_mode)
      .iparam(1, padding_mode)
      .iparam(2, align_corners ? 1 : 0)
      .launch(input.device());
  return out;
}

}  // namespace

at::Tensor grid_sampler_2d(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation_mode,
                           int64_t padding_mode, bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_2d(input, grid);
  return grid_sample(input, grid, interpolation_mode, padding_mode, align_corners);
}

at::Tensor grid_sampler_3d(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation_mode,
                           int64_t padding_mode, bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_3d(input, grid, interpolation_mode);
  return grid_sample(input, grid, interpolation_mode, padding_mode, align_corners);
}

}  // namespace atalla::aten
