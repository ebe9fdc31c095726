// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of average pools.
#include <ATen/native/AdaptivePooling.h>

#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

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

}  // namespace atalla::aten
