// SPDX-License-Identifier: BSD-3-Clause
//
// Activations, and their derivatives, that are more than one launch over the op's own arguments.
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

namespace {

std::pair<Tensor, Tensor> halves(const Tensor& x, int64_t dim) {
  const int64_t half = x.size(dim) / 2;
  return {x.narrow(dim, 0, half), x.narrow(dim, half, half)};
}

// da * s + glu * (1 - s) * db
Tensor glu_jvp(const Tensor& glu, const Tensor& x, const Tensor& dx, int64_t dim) {
  const auto [da, db] = halves(dx, dim);
  const Tensor s = at::sigmoid(halves(x, dim).second);
  return at::add(at::mul(da, s), at::mul(at::mul(glu, at::rsub(s, 1)), db));
}

// Of [g * s, g * a * s'], the gradient for a cotangent g.
Tensor glu_backward_jvp(const Tensor& /*grad_x*/, const Tensor& grad_glu, const Tensor& x, const Tensor& dgrad_glu,
                        const Tensor& dx, int64_t dim) {
  const auto [a, b] = halves(x, dim);
  const auto [da, db] = halves(dx, dim);
  const Tensor s = at::sigmoid(b), slope = at::mul(s, at::rsub(s, 1));
  const Tensor first = at::add(at::mul(dgrad_glu, s), at::mul(at::mul(grad_glu, slope), db));
  // (g * a)' * s' + g * a * s'' * db, with s'' = s' * (1 - 2 * s)
  const Tensor product = at::add(at::mul(dgrad_glu, a), at::mul(grad_glu, da));
  const Tensor bend = at::mul(slope, at::rsub(at::mul(s, 2), 1));
  const Tensor second = at::add(at::mul(product, slope), at::mul(at::mul(at::mul(grad_glu, a), bend), db));
  return at::cat({first, second}, dim);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("glu_jvp", TORCH_FN(glu_jvp));
  m.impl("glu_backward_jvp", TORCH_FN(glu_backward_jvp));
}

}  // namespace

}  // namespace atalla::aten
