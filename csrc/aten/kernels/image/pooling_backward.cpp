// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of average pools.
#include <ATen/native/AdaptivePooling.h>

#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

namespace {

const Kernel kAverageBackward("pool_backward.average"), kAdaptiveBackward("pool_backward.adaptive_average");

void average_backward(const Tensor& grad_output, int64_t spatial, IntArrayRef kernel, IntArrayRef stride,
                      IntArrayRef padding, bool count_include_pad, std::optional<int64_t> divisor,
                      const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  PoolBackwardAverageParameters parameters{.count_padding = count_include_pad, .divisor = divisor.value_or(0)};
  set_windows(parameters, spatial, kernel, stride, padding);
  launch(kAverageBackward, grad_output.scalar_type(), {Image(grad_input, spatial)}, {Image(grad_output, spatial)},
         parameters);
}

Tensor& adaptive_backward(const char* name, const Tensor& grad_output, const Tensor& self, int64_t spatial,
                          Tensor& grad_input) {
  at::native::adaptive_pool_empty_output_check(grad_output, name);
  TORCH_CHECK(self.dim() == spatial + 1 || self.dim() == spatial + 2, name, "(): Expected ", spatial + 1, "D or ",
              spatial + 2, "D tensor, but got ", self.sizes());
  TORCH_CHECK(self.dtype() == grad_output.dtype(), "expected dtype ", self.dtype(), " for `grad_output` but got dtype ",
              grad_output.dtype());
  grad_input.resize_(self.sizes(), spatial == 2 ? std::optional(image_format(self, 2)) : std::nullopt);
  if (grad_input.numel() == 0) return grad_input;
  launch(kAdaptiveBackward, grad_output.scalar_type(), {Image(grad_input, spatial)}, {Image(grad_output, spatial)});
  return grad_input;
}

}  // namespace

void avg_pool2d_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                         IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                         std::optional<int64_t> divisor_override, const Tensor& grad_input) {
  average_backward(grad_output, 2, kernel_size, stride, padding, count_include_pad, divisor_override, grad_input);
}
void avg_pool3d_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                         IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                         std::optional<int64_t> divisor_override, const Tensor& grad_input) {
  average_backward(grad_output, 3, kernel_size, stride, padding, count_include_pad, divisor_override, grad_input);
}

Tensor adaptive_avg_pool2d_backward(const Tensor& grad_output, const Tensor& self) {
  Tensor grad_input = empty_like_dtype(self, {0}, self.scalar_type());
  return adaptive_backward("adaptive_avg_pool2d_backward", grad_output, self, 2, grad_input);
}
Tensor adaptive_avg_pool3d_backward(const Tensor& grad_output, const Tensor& self) {
  Tensor grad_input = empty_like_dtype(self, {0}, self.scalar_type());
  return adaptive_backward("adaptive_avg_pool3d_backward", grad_output, self, 3, grad_input);
}
Tensor& adaptive_avg_pool3d_backward_out(const Tensor& grad_output, const Tensor& self, Tensor& grad_input) {
  return adaptive_backward("adaptive_avg_pool3d_backward", grad_output, self, 3, grad_input);
}

}  // namespace atalla::aten
