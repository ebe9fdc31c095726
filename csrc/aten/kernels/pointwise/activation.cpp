// SPDX-License-Identifier: BSD-3-Clause
//
// Activations, and their gradients, that are more than one launch over the op's own arguments.

#include "aten/kernels/pointwise/pointwise.h"

namespace atalla::aten {

// The second result, which the CPU keeps for the gradient, is left empty: the gradient is computed from `self`. Of one
// number it is 0, without dimensions: vmap brings the operands of the gradient to the largest rank of them. The first
// is contiguous whatever the strides of `self`, as on the CPU.
std::tuple<Tensor&, Tensor&> log_sigmoid_forward_out(const PointwiseKernel& kernel, const Tensor& self, Tensor& output,
                                                     Tensor& buffer) {
  output.resize_(self.sizes());  // without a warning, as upstream
  auto iterator = unary_iterator(output, self);
  run_pointwise(iterator, kernel);
  return {output, buffer};
}

std::tuple<Tensor, Tensor> log_sigmoid_forward(const PointwiseKernel& kernel, const Tensor& self) {
  Tensor output = at::empty(self.sizes(), self.options()), buffer;
  buffer = self.dim() == 0 ? at::zeros({}, self.options()) : at::empty({0}, self.options());
  log_sigmoid_forward_out(kernel, self, output, buffer);
  return {output, buffer};
}

std::tuple<Tensor, Tensor> prelu_backward(const PointwiseKernel& kernel, const Tensor& grad_output, const Tensor& self,
                                          const Tensor& weight) {
  auto iterator = floating_iterator({Tensor(), Tensor()}, grad_output, self, weight);
  run_pointwise(iterator, kernel);
  return {iterator.output(0), iterator.output(1)};
}

// Upstream's meta gives an iterator over halves that no longer live, whose memory alone may be looked at.
void glu(const PointwiseKernel& kernel, const Tensor& self, int64_t dim, const Tensor& out) {
  const int64_t size = self.size(dim) / 2;
  auto iterator = binary_iterator(out, self.narrow(dim, 0, size), self.narrow(dim, size, size));
  run_pointwise(iterator, kernel);
}

Tensor& glu_backward_out(const PointwiseKernel& kernel, const Tensor& grad_output, const Tensor& self, int64_t dim,
                         Tensor& grad_input) {
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.size(wrapped);
  TORCH_CHECK(size % 2 == 0, "Halving dimension must be even, but dimension ", wrapped, " is size ", size);
  grad_input.resize_as_(self);
  auto half = [&](const Tensor& t, int64_t k) { return t.narrow(wrapped, k * (size / 2), size / 2); };
  auto iterator =
      floating_iterator({half(grad_input, 0), half(grad_input, 1)}, grad_output, half(self, 0), half(self, 1));
  run_pointwise(iterator, kernel);
  return grad_input;
}
}  // namespace atalla::aten
