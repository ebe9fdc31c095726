// SPDX-License-Identifier: BSD-3-Clause
//
// Losses: a pointwise kernel, then the reduction that the caller asks for.

#include "aten/kernels/pointwise/pointwise.h"

namespace atalla::aten {

namespace {

Tensor& reduce_out(const Tensor& loss, int64_t reduction, Tensor& out) {
  if (reduction == at::Reduction::Mean) return at::mean_out(out, loss, IntArrayRef{});
  return at::sum_out(out, loss, IntArrayRef{});
}
Tensor reduced(const Tensor& loss, int64_t reduction) {
  if (reduction == at::Reduction::Mean) return at::mean(loss);
  return reduction == at::Reduction::Sum ? at::sum(loss) : loss;
}

// A structured loss: upstream's meta has built the iterator for the unreduced loss.
template <class... Scalars>
void structured_loss(const PointwiseKernel& kernel, TensorIteratorBase& iterator, const Tensor& self,
                     const Tensor& target, int64_t reduction, const Tensor& out, const Scalars&... scalars) {
  if (reduction == at::Reduction::None) {
    run_pointwise(iterator, kernel, scalars...);
    return;
  }
  auto unreduced = binary_iterator({}, self, target);
  run_pointwise(unreduced, kernel, scalars...);
  reduce_out(unreduced.output(), reduction, const_cast<Tensor&>(out));
}

// The factor by which a reduction scales the gradient.
double mean_factor(const Tensor& self, int64_t reduction) {
  return reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(self.numel()) : 1.0;
}

template <class... Scalars>
Tensor backward(const PointwiseKernel& kernel, const Tensor& grad_input, const Tensor& grad_output, const Tensor& self,
                const Tensor& target, const Scalars&... scalars) {
  auto iterator = TensorIteratorConfig()  // in the operands' common dtype, into the one of `self`
                      .check_all_same_dtype(false)
                      .promote_inputs_to_common_dtype(true)
                      .add_output(grad_input)
                      .add_const_input(grad_output)
                      .add_const_input(self)
                      .add_const_input(target)
                      .build();
  run_pointwise(iterator, kernel, scalars...);
  return iterator.output();
}

}  // namespace

void mse_loss(const PointwiseKernel& kernel, TensorIteratorBase& iterator, const Tensor& self, const Tensor& target,
              int64_t reduction, const Tensor& out) {
  structured_loss(kernel, iterator, self, target, reduction, out);
}

Tensor mse_loss_backward(const PointwiseKernel& kernel, const Tensor& grad_output, const Tensor& self,
                         const Tensor& target, int64_t reduction) {
  const Tensor grad_input = empty_like_dtype(self, self.sizes(), self.scalar_type());  // contiguous, as on the CPU
  return backward(kernel, grad_input, grad_output, self, target, 2 * mean_factor(self, reduction));
}

Tensor& mse_loss_backward_out(const PointwiseKernel& kernel, const Tensor& grad_output, const Tensor& self,
                              const Tensor& target, int64_t reduction, Tensor& grad_input) {
  backward(kernel, grad_input, grad_output, self, target, 2 * mean_factor(self, reduction));
  return grad_input;
}

void smooth_l1_loss(const PointwiseKernel& kernel, TensorIteratorBase& iterator, const Tensor& self,
                    const Tensor& target, int64_t reduction, double beta, const Tensor& out) {
  structured_loss(kernel, iterator, self, target, reduction, out, beta);
}
// Smooth L1 and Huber losses: `threshold` is where the square ends.
Tensor& huber_loss_backward_out(const PointwiseKernel& kernel, const Tensor& grad_output, const Tensor& self,
                                const Tensor& target, int64_t reduction, double threshold, Tensor& grad_input) {
  backward(kernel, grad_input, grad_output, self, target, mean_factor(self, reduction), threshold);
  return grad_input;
}

Tensor huber_loss(const PointwiseKernel& kernel, const Tensor& self, const Tensor& target, int64_t reduction,
                  double delta) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  // In the dtype of `self`, as upstream's.
  const Tensor loss = self.scalar_type() == target.scalar_type()
                          ? Tensor()
                          : empty_like_dtype(self, at::infer_size(self.sizes(), target.sizes()), self.scalar_type());
  auto iterator = binary_iterator(loss, self, target);
  run_pointwise(iterator, kernel, delta);
  return reduced(iterator.output(), reduction);
}

Tensor& huber_loss_out(const PointwiseKernel& kernel, const Tensor& self, const Tensor& target, int64_t reduction,
                       double delta, Tensor& out) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  auto iterator = binary_iterator(reduction == at::Reduction::None ? out : Tensor(), self, target);
  run_pointwise(iterator, kernel, delta);
  return reduction == at::Reduction::None ? out : reduce_out(iterator.output(), reduction, out);
}

Tensor& binary_cross_entropy_out(const PointwiseKernel& kernel, const Tensor& self, const Tensor& target,
                                 const Tensor& weight, int64_t reduction, Tensor& out) {
  const bool reduces = reduction != at::Reduction::None;
  Tensor loss = reduces ? at::empty_like(self) : out.resize_(self.sizes());
  auto iterator = binary_iterator(loss, self, target);
  run_pointwise(iterator, kernel);
  if (weight.defined()) loss.mul_(weight);
  return reduces ? reduce_out(loss, reduction, out) : out;
}

Tensor binary_cross_entropy(const PointwiseKernel& kernel, const Tensor& self, const Tensor& target,
                            const Tensor& weight, int64_t reduction) {
  Tensor out = reduction == at::Reduction::None ? at::empty_like(self) : at::empty({}, self.options());
  return binary_cross_entropy_out(kernel, self, target, weight, reduction, out);
}

Tensor& binary_cross_entropy_backward_out(const PointwiseKernel& kernel, const Tensor& grad_output, const Tensor& self,
                                          const Tensor& target, const Tensor& weight, int64_t reduction,
                                          Tensor& grad_input) {
  grad_input.resize_as_(self);
  backward(kernel, grad_input, grad_output, self, target);
  if (weight.defined()) grad_input.mul_(weight);
  if (reduction == at::Reduction::Mean) grad_input.div_(self.numel());
  return grad_input;
}

Tensor binary_cross_entropy_backward(const PointwiseKernel& kernel, const Tensor& grad_output, const Tensor& self,
                                     const Tensor& target, const Tensor& weight, int64_t reduction) {
  Tensor grad_input = at::empty_like(self);
  return binary_cross_entropy_backward_out(kernel, grad_output, self, target, weight, reduction, grad_input);
}

}  // namespace atalla::aten
