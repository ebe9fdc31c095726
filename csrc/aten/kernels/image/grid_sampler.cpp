// SPDX-License-Identifier: BSD-3-Clause
#include "aten/dispatch/torch_version.h"
#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

namespace {

// The grid with d, h and w.
struct Grid {
  explicit Grid(const Tensor& t) : tensor(t), sizes(t.sizes()), strides(t.strides()) {
    if (t.dim() == 4) {
      sizes.insert(sizes.begin() + 1, 1);
      strides.insert(strides.begin() + 1, 0);
    }
  }
  operator Operand() const { return {tensor, sizes, strides}; }
  const Tensor& tensor;
  DimVector sizes, strides;
};

void check(const Tensor& input, const Tensor& grid, int64_t spatial, int64_t interpolation_mode) {
  at::native::check_grid_sampler_common(input, grid);
  if (spatial == 2) at::native::check_grid_sampler_2d(input, grid);
  else check_grid_sampler_3d(input, grid, interpolation_mode);
}

}  // namespace

Tensor grid_sample(const Kernel& kernel, int64_t spatial, const Tensor& input, const Tensor& grid,
                   int64_t interpolation_mode, int64_t padding_mode, bool align_corners) {
  check(input, grid, spatial, interpolation_mode);
  DimVector sizes(input.sizes().slice(0, 2));
  for (int64_t d = 0; d < spatial; ++d) sizes.push_back(grid.size(1 + d));
  const Tensor out = empty_like_dtype(input, sizes, input.scalar_type());
  if (out.numel() == 0) return out;
  TORCH_CHECK(grid.scalar_type() == input.scalar_type(), "expected scalar type ", input.scalar_type(), " but found ",
              grid.scalar_type());
  launch(kernel, input.scalar_type(), {Image(out, spatial)}, {Image(input, spatial), Grid(grid)},
         GridSampleParameters{.mode = static_cast<GridMode>(interpolation_mode),
                              .padding = static_cast<GridPadding>(padding_mode),
                              .align_corners = align_corners});
  return out;
}

std::tuple<Tensor, Tensor> grid_sample_backward(const Kernel& kernel, int64_t spatial, const Tensor& grad_output,
                                                const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                                                int64_t padding_mode, bool align_corners,
                                                std::array<bool, 2> output_mask) {
  check(input, grid, spatial, interpolation_mode);
  const bool with_input = output_mask[0];
  Tensor grad_input, grad_grid = empty_like_dtype(grid, grid.sizes(), grid.scalar_type());
  if (with_input) grad_input = empty_like_dtype(input, input.sizes(), input.scalar_type());
  if (grid.numel() == 0 || input.numel() == 0) {
    if (with_input) grad_input.zero_();
    grad_grid.zero_();
    return {grad_input, grad_grid};
  }
  const GridSampleBackwardParameters parameters{.mode = static_cast<GridMode>(interpolation_mode),
                                                .padding = static_cast<GridPadding>(padding_mode),
                                                .align_corners = align_corners};
  launch(kernel, input.scalar_type(), {Image(grad_input, spatial), Grid(grad_grid)},
         {Image(grad_output, spatial), Image(input, spatial), Grid(grid)}, parameters);
  return {grad_input, grad_grid};
}

}  // namespace atalla::aten
