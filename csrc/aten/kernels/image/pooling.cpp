// SPDX-License-Identifier: BSD-3-Clause
//
// Pooling over windows, regular and adaptive, and its gradients. In unpooling and the gradients of max pools, elements
// go where the indices of the pool point to.
#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/native/Pool.h>

#include "aten/dispatch/torch_version.h"
#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

namespace {

DimVector max_pool3d_sizes(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride_, IntArrayRef padding_,
                           IntArrayRef dilation_, bool ceil_mode) {
  TORCH_CHECK(kernel_size.size() == 1 || kernel_size.size() == 3,
              "max_pool3d: kernel_size must either be a single int, or a tuple of three ints");
  TORCH_CHECK(stride_.empty() || stride_.size() == 1 || stride_.size() == 3,
              "max_pool3d: stride must either be omitted, a single int, or a tuple of three ints");
  TORCH_CHECK(padding_.size() == 1 || padding_.size() == 3,
              "max_pool3d: padding must either be a single int, or a tuple of three ints");
  TORCH_CHECK(dilation_.size() == 1 || dilation_.size() == 3,
              "max_pool3d: dilation must be either a single int, or a tuple of three ints");
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "non-empty 4D or 5D (batch mode) tensor expected for input");
  const auto k = spatial_parameter(kernel_size, 3, 1), s = stride_.empty() ? k : spatial_parameter(stride_, 3, 1);
  const auto p = spatial_parameter(padding_, 3, 0), l = spatial_parameter(dilation_, 3, 1);
  int64_t in[3], out[3];
  for (int d = 0; d < 3; ++d) {
    in[d] = self.size(d - 3);
    out[d] = at::native::pooling_output_shape<int64_t>(in[d], k[d], p[d], s[d], l[d], ceil_mode);
  }
  at::native::pool3d_shape_check(self, self.size(-4), k[0], k[1], k[2], s[0], s[1], s[2], p[0], p[1], p[2], l[0], l[1],
                                 l[2], in[0], in[1], in[2], out[0], out[1], out[2],
                                 "max_pool3d_with_indices_out_cpu_template()");
  return with_spatial(self, out);
}

// Gives a result of pooling in three dimensions its sizes, and the memory format of the input, also without a batch.
void resize_like_image(const Tensor& self, IntArrayRef sizes, const Tensor& out) {
  const bool last = !self.is_contiguous() && self.unsqueeze(0).is_contiguous(MemoryFormat::ChannelsLast3d);
  if (self.dim() != 4 || !last || out.sizes() == sizes) {
    out.resize_(sizes, image_format(self, 3));
    return;
  }
  DimVector batch(sizes);
  batch.insert(batch.begin(), 1);
  out.resize_(batch, MemoryFormat::ChannelsLast3d).squeeze_(0);
}

DimVector adaptive_average_sizes(const Tensor& self, IntArrayRef output_size, int64_t spatial) {
  TORCH_CHECK(static_cast<int64_t>(output_size.size()) == spatial, "adaptive_avg_pool", spatial,
              "d: output_size must be ", spatial);
  TORCH_CHECK(self.dim() == spatial + 1 || self.dim() == spatial + 2, "adaptive_avg_pool", spatial, "d(): Expected ",
              spatial + 1, "D or ", spatial + 2, "D tensor, but got ", self.sizes());
  // In two dimensions there may be no channels.
  for (int64_t d = spatial == 2 ? self.dim() - 2 : 1; d < self.dim(); ++d) {
    TORCH_CHECK(self.size(d) > 0, "adaptive_avg_pool", spatial,
                "d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
                self.sizes(), " with dimension ", d, " being empty");
  }
  return with_spatial(self, output_size);
}

}  // namespace

void max_pool(const Kernel& kernel, int64_t spatial, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
              IntArrayRef padding, IntArrayRef dilation, const Tensor& out, const Tensor& indices) {
  PoolMaxParameters parameters{};
  set_windows(parameters, spatial, kernel_size, stride, padding);
  set_spatial(parameters.dilation, dilation, spatial, 1);
  launch(kernel, self.scalar_type(), {Image(out, spatial), Image(indices, spatial)}, {Image(self, spatial)},
         parameters);
}

std::tuple<Tensor&, Tensor&> max_pool3d_with_indices_out(const Kernel& kernel, const Tensor& self,
                                                         IntArrayRef kernel_size, IntArrayRef stride,
                                                         IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                                                         Tensor& out, Tensor& indices) {
  const auto sizes = max_pool3d_sizes(self, kernel_size, stride, padding, dilation, ceil_mode);
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "Expected out tensor to have dtype ", self.scalar_type(),
              ", but got ", out.scalar_type(), " instead");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "Expected out tensor to have dtype Long, but got ",
              indices.scalar_type(), " instead");
  resize_like_image(self, sizes, out);
  resize_like_image(self, sizes, indices);
  max_pool(kernel, 3, self, kernel_size, stride, padding, dilation, out, indices);
  return {out, indices};
}

void average_pool(const Kernel& kernel, int64_t spatial, const Tensor& self, IntArrayRef kernel_size,
                  IntArrayRef stride, IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                  std::optional<int64_t> divisor_override, const Tensor& out) {
  PoolAverageParameters parameters{.count_padding = count_include_pad, .divisor = divisor_override.value_or(0)};
  set_windows(parameters, spatial, kernel_size, stride, padding);
  launch(kernel, self.scalar_type(), {Image(out, spatial)}, {Image(self, spatial)}, parameters);
}

Tensor& adaptive_average_pool_out(const Kernel& kernel, int64_t spatial, const Tensor& self, IntArrayRef output_size,
                                  Tensor& out) {
  const DimVector sizes = adaptive_average_sizes(self, output_size, spatial);
  TORCH_CHECK(self.dtype() == out.dtype(), "expected dtype ", self.dtype(), " for `output` but got dtype ",
              out.dtype());
  out.resize_(sizes, spatial == 2 ? image_format(self, 2) : MemoryFormat::Contiguous);
  launch(kernel, self.scalar_type(), {Image(out, spatial)}, {Image(self, spatial)});
  return out;
}

void adaptive_max_pool(const Kernel& kernel, int64_t spatial, const Tensor& self, const Tensor& out,
                       const Tensor& indices) {
  launch(kernel, self.scalar_type(), {Image(out, spatial), Image(indices, spatial)}, {Image(self, spatial)});
}

void fractional_max_pool(const Kernel& kernel, int64_t spatial, const Tensor& self, IntArrayRef kernel_size,
                         const Tensor& samples, const Tensor& out, const Tensor& indices) {
  if (spatial == 2) at::native::fractional_max_pool_check_shape<2>(self, samples);
  else at::native::fractional_max_pool_check_shape<3>(self, samples);
  PoolFractionalMaxParameters parameters{.spatial_dims = spatial};
  set_spatial(parameters.kernel, kernel_size, spatial, 1);
  launch(kernel, self.scalar_type(), {Image(out, spatial), Image(indices, spatial)}, {Image(self, spatial), samples},
         parameters);
}

void average_pool_backward(const Kernel& kernel, int64_t spatial, const Tensor& grad_output, const Tensor& self,
                           IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                           bool count_include_pad, std::optional<int64_t> divisor_override, const Tensor& grad_input) {
  PoolBackwardAverageParameters parameters{.count_padding = count_include_pad, .divisor = divisor_override.value_or(0)};
  set_windows(parameters, spatial, kernel_size, stride, padding);
  launch(kernel, grad_output.scalar_type(), {Image(grad_input, spatial)}, {Image(grad_output, spatial)}, parameters);
}

Tensor& adaptive_average_pool_backward_out(const Kernel& kernel, const char* name, int64_t spatial,
                                           const Tensor& grad_output, const Tensor& self, Tensor& grad_input) {
  at::native::adaptive_pool_empty_output_check(grad_output, name);
  TORCH_CHECK(self.dim() == spatial + 1 || self.dim() == spatial + 2, name, "(): Expected ", spatial + 1, "D or ",
              spatial + 2, "D tensor, but got ", self.sizes());
  TORCH_CHECK(self.dtype() == grad_output.dtype(), "expected dtype ", self.dtype(), " for `grad_output` but got dtype ",
              grad_output.dtype());
  grad_input.resize_(self.sizes(), spatial == 2 ? std::optional(image_format(self, 2)) : std::nullopt);
  launch(kernel, grad_output.scalar_type(), {Image(grad_input, spatial)}, {Image(grad_output, spatial)});
  return grad_input;
}

namespace {

DimVector unpool_sizes(const Tensor& self, const Tensor& indices, IntArrayRef output_size, int64_t spatial) {
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  if (spatial == 2) {
    TORCH_CHECK(output_size.size() == 2,
                "There should be exactly two elements (height, width) in output_size, but got ", output_size.size(),
                " elements.");
    TORCH_CHECK(self.dim() == 3 || self.dim() == 4,
                "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with ", self.dim(),
                " dimensions.");
  } else {
    TORCH_CHECK(self.dim() == 4 || self.dim() == 5,
                "Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor with ", rank_text(self.dim()));
    TORCH_CHECK(output_size.size() == 3,
                "There should be exactly three elements (depth, height, width) in output_size, but got ",
                output_size.size(), " elements.");
  }
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  for (int64_t d = 1; d < self.dim(); ++d) {
    TORCH_CHECK(self.size(d) > 0, "max_unpooling", spatial,
                "d(): Expected input to have non-zero size for non-batch dimensions, but got ", self.sizes(),
                " with dimension ", d, " being empty.");
  }
  return with_spatial(self, output_size);
}

void check_unpool3d(IntArrayRef stride, IntArrayRef padding) {
  TORCH_CHECK(stride.size() == 3,
              "There should be exactly three elements (depth, height, width) in stride, but got: ", stride.size(),
              " elements.");
  TORCH_CHECK(padding.size() == 3,
              "There should be exactly three elements (depth, height, width) in padding, but got: ", padding.size(),
              " elements.");
  TORCH_CHECK(stride[0] > 0 && stride[1] > 0 && stride[2] > 0,
              "strides should be greater than zero, but got stride: ", stride);
}

}  // namespace

void scatter_windows(const Kernel& kernel, int64_t spatial, bool add, const Tensor& self, const Tensor& indices,
                     const Tensor& out) {
  if (self.numel() == 0) {
    out.zero_();
    return;
  }
  launch(kernel, self.scalar_type(), {Image(out, spatial)}, {Image(self, spatial), Image(indices, spatial)},
         PoolScatterParameters{.add = add});
}

Tensor& max_unpool_out(const Kernel& kernel, int64_t spatial, const Tensor& self, const Tensor& indices,
                       IntArrayRef output_size, Tensor& out) {
  const auto format = spatial == 2 ? image_format(self, 2) : MemoryFormat::Contiguous;
  out.resize_(unpool_sizes(self, indices, output_size, spatial), format);
  scatter_windows(kernel, spatial, false, self, indices, out);
  return out;
}

Tensor& max_unpool3d_out(const Kernel& kernel, const Tensor& self, const Tensor& indices, IntArrayRef output_size,
                         IntArrayRef stride, IntArrayRef padding, Tensor& out) {
  check_unpool3d(stride, padding);
  return max_unpool_out(kernel, 3, self, indices, output_size, out);
}

Tensor& max_pool3d_backward_out(const Kernel& kernel, const Tensor& grad_output, const Tensor& self,
                                IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                bool, const Tensor& indices, Tensor& grad_input) {
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "non-empty 4D or 5D (batch mode) tensor expected for input");
  const auto k = spatial_parameter(kernel_size, 3, 1), s = stride.empty() ? k : spatial_parameter(stride, 3, 1);
  const auto p = spatial_parameter(padding, 3, 0), l = spatial_parameter(dilation, 3, 1);
  check_max_pool3d_backward(
      self, grad_output, indices, self.size(-4), static_cast<int>(k[0]), static_cast<int>(k[1]), static_cast<int>(k[2]),
      static_cast<int>(s[0]), static_cast<int>(s[1]), static_cast<int>(s[2]), static_cast<int>(p[0]),
      static_cast<int>(p[1]), static_cast<int>(p[2]), static_cast<int>(l[0]), static_cast<int>(l[1]),
      static_cast<int>(l[2]), self.size(-3), self.size(-2), self.size(-1), grad_output.size(-3), grad_output.size(-2),
      grad_output.size(-1), "max_pool3d_with_indices_backward_out_cpu_template()");
  grad_input.resize_(self.sizes(), image_format(self, 3));
  scatter_windows(kernel, 3, true, grad_output, indices, grad_input);
  return grad_input;
}

Tensor& fractional_max_pool3d_backward_out(const Kernel& kernel, const Tensor& grad_output, const Tensor& self,
                                           IntArrayRef, IntArrayRef, const Tensor& indices, Tensor& grad_input) {
  at::native::resize_output(grad_input, self.sizes());
  scatter_windows(kernel, 3, true, grad_output, indices, grad_input);
  return grad_input;
}

}  // namespace atalla::aten
