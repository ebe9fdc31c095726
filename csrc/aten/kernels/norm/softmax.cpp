// SPDX-License-Identifier: BSD-3-Clause
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

void softmax(const Kernel& kernel, const Tensor& self, int64_t dim, bool half_to_float, const Tensor& out) {
  TORCH_CHECK(!half_to_float, kernel.name(), " with half to float conversion is not supported on ",
              self.device().type());
  launch(kernel, self.scalar_type(), {out}, {self}, SoftmaxParameters{.dim = at::maybe_wrap_dim(dim, self.dim())});
}

// y * (g - sum(g * y))
void softmax_backward(const Tensor& grad_output, const Tensor& output, int64_t dim, ScalarType input_dtype,
                      const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  const Tensor y = widened(output), g = at::mul(widened(grad_output), y);
  grad_input.copy_(at::sub(g, at::mul(y, at::sum(g, dim, true))));
}

// g - e^y * sum(g)
void log_softmax_backward(const Tensor& grad_output, const Tensor& output, int64_t dim, ScalarType input_dtype,
                          const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  const Tensor g = widened(grad_output);
  grad_input.copy_(at::sub(g, at::mul(at::exp(widened(output)), at::sum(g, dim, true))));
}

}  // namespace atalla::aten
