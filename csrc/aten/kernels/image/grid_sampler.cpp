// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/native/GridSamplerUtils.h>

#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

namespace {

const Kernel kGridSample("grid_sample"), kGridSampleBackward("grid_sample_backward");

// The grid with d, h and w.
void grid_operand(LaunchBuilder& builder, const Tensor& grid, bool output) {
  DimVector sizes(grid.sizes()), strides(grid.strides());
  if (grid.dim() == 4) {
    sizes.insert(sizes.begin() + 1, 1);
    strides.insert(strides.begin() + 1, 0);
  }
  if (output) builder.output(grid, sizes, strides);
  else builder.input(grid, sizes, strides);
}

Tensor grid_sample(const Tensor& input, const Tensor& grid, int64_t interpolation_mode, int64_t padding_mode,
                   bool align_corners) {
  const int64_t spatial = input.dim() - 2;
  TORCH_CHECK(grid.scalar_type() == input.scalar_type(), "expected scalar type ", input.scalar_type(), " but found ",
              grid.scalar_type());
  DimVector sizes(input.sizes().slice(0, 2));
  for (int64_t d = 0; d < spatial; ++d) sizes.push_back(grid.size(1 + d));
  const Tensor out = empty_like_dtype(input, sizes, input.scalar_type());
  if (out.numel() == 0) return out;
  LaunchBuilder builder(kGridSample, input.scalar_type());
  image_output(builder, out, spatial);
  image_input(builder, input, spatial);
  grid_operand(builder, grid, false);
  builder
      .parameters(
          GridSampleParameters{.mode = interpolation_mode, .padding = padding_mode, .align_corners = align_corners})
      .launch(input.device());
  return out;
}

std::tuple<Tensor, Tensor> grid_sample_backward(const Tensor& grad_output, const Tensor& input, const Tensor& grid,
                                                int64_t interpolation_mode, int64_t padding_mode, bool align_corners,
                                                bool with_input) {
  const int64_t spatial = input.dim() - 2;
  Tensor grad_input, grad_grid = empty_like_dtype(grid, grid.sizes(), grid.scalar_type());
  if (with_input) grad_input = empty_like_dtype(input, input.sizes(), input.scalar_type());
  if (grid.numel() == 0 || input.numel() == 0) {
    if (with_input) grad_input.zero_();
    grad_grid.zero_();
    return {grad_input, grad_grid};
  }
  LaunchBuilder builder(kGridSampleBackward, input.scalar_type());
  if (with_input) image_output(builder, grad_input, spatial);
  else builder.optional_output({});
  grid_operand(builder, grad_grid, true);
  image_input(builder, grad_output, spatial);
  image_input(builder, input, spatial);
  grid_operand(builder, grid, false);
  builder
      .parameters(GridSampleBackwardParameters{
          .mode = interpolation_mode, .padding = padding_mode, .align_corners = align_corners})
      .launch(input.device());
  return {grad_input, grad_grid};
}

}  // namespace

Tensor grid_sampler_2d(const Tensor& input, const Tensor& grid, int64_t interpolation_mode, int64_t padding_mode,
                       bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_2d(input, grid);
  return grid_sample(input, grid, interpolation_mode, padding_mode, align_corners);
}

Tensor grid_sampler_3d(const Tensor& input, const Tensor& grid, int64_t interpolation_mode, int64_t padding_mode,
                       bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_3d(input, grid, interpolation_mode);
  return grid_sample(input, grid, interpolation_mode, padding_mode, align_corners);
}

std::tuple<Tensor, Tensor> grid_sampler_2d_backward(const Tensor& grad_output, const Tensor& input, const Tensor& grid,
                                                    int64_t interpolation_mode, int64_t padding_mode,
                                                    bool align_corners, std::array<bool, 2> output_mask) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_2d(input, grid);
  return grid_sample_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners,
                              output_mask[0]);
}

std::tuple<Tensor, Tensor> grid_sampler_3d_backward(const Tensor& grad_output, const Tensor& input, const Tensor& grid,
                                                    int64_t interpolation_mode, int64_t padding_mode,
                                                    bool align_corners, std::array<bool, 2> output_mask) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_3d(input, grid, interpolation_mode);
  return grid_sample_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners,
                              output_mask[0]);
}

}  // namespace atalla::aten
