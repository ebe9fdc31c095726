// SPDX-License-Identifier: BSD-3-Clause
//
// Unpooling, and the gradients of max pools: elements go where the indices of the pool point to.
#include "aten/dispatch/torch_version.h"
#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

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
