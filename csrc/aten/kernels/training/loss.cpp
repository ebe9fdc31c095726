// SPDX-License-Identifier: BSD-3-Clause
//
// Losses: a pointwise kernel, then the reduction that the caller asks for.
#include <ATen/core/Reduction.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include "aten/device/empty.h"
#include "aten/kernels/pointwise/pointwise.h"

namespace atalla::aten {

namespace {

const PointwiseKernel kMse{"pointwise.mse_loss", kFloatingDtypes, 2};
const PointwiseKernel kMseBackward{"pointwise.mse_loss_backward", kFloatingDtypes, 3};
const PointwiseKernel kSmoothL1{"pointwise.smooth_l1_loss", kFloatingDtypes, 2};
const PointwiseKernel kSmoothL1Backward{"pointwise.smooth_l1_loss_backward", kFloatingDtypes, 3};
const PointwiseKernel kHuber{"pointwise.huber_loss", kFloatingDtypes, 2};
const PointwiseKernel kHuberBackward{"pointwise.huber_loss_backward", kFloatingDtypes, 3};
const PointwiseKernel kBinaryCrossEntropy{"pointwise.binary_cross_entropy", kFloatingDtypes, 2};
const PointwiseKernel kBinaryCrossEntropyBackward{"pointwise.binary_cross_entropy_backward", kFloatingDtypes, 3};

at::Tensor& reduce_out(const at::Tensor& loss, int64_t reduction, at::Tensor& out) {
  if (reduction == at::Reduction::Mean) return at::mean_out(out, loss, at::IntArrayRef{});
  return at::sum_out(out, loss, at::IntArrayRef{});
}
at::Tensor reduced(const at::Tensor& loss, int64_t reduction) {
  if (reduction == at::Reduction::Mean) return at::mean(loss);
  return reduction == at::Reduction::Sum ? at::sum(loss) : loss;
}

// A structured loss: upstream's meta has built the iterator for the unreduced loss.
template <class... Scalars>
void structured_loss(const PointwiseKernel& kernel, at::TensorIteratorBase& iterator, const at::Tensor& self,
                     const at::Tensor& target, int64_t reduction, const at::Tensor& out, const Scalars&... scalars) {
  if (reduction == at::Reduction::None) {
    run_pointwise(iterator, kernel, scalars...);
    return;
  }
  auto unreduced = binary_iterator({}, self, target);
  run_pointwise(unreduced, kernel, scalars...);
  reduce_out(unreduced.output(), reduction, const_cast<at::Tensor&>(out));
}

// What a gradient is multiplied with for the reduction.
double mean_factor(const at::Tensor& self, int64_t reduction) {
  return reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(self.numel()) : 1.0;
}

template <class... Scalars>
at::Tensor backward(const PointwiseKernel& kernel, const at::Tensor& grad_input, const at::Tensor& grad_output,
                    const at::Tensor& self, const at::Tensor& target, const Scalars&... scalars) {
  auto iterator = floating_iterator({grad_input}, grad_output, self, target);
  run_pointwise(iterator, kernel, scalars...);
  return iterator.output();
}

}  // namespace

void mse_loss(at::TensorIteratorBase& iterator, const at::Tensor& self, const at::Tensor& target, int64_t reduction,
              const at::Tensor& out) {
  structured_loss(kMse, iterator, self, target, reduction, out);
}
at::Tensor mse_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                             int64_t reduction) {
  const at::Tensor grad_input = empty_like_dtype(self, self.sizes(), self.scalar_type());  // contiguous, as on the CPU
  return backward(kMseBackward, grad_input, grad_output, self, target, 2 * mean_factor(self, reduction));
}
at::Tensor& mse_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                  int64_t reduction, at::Tensor& grad_input) {
  backward(kMseBackward, grad_input, grad_output, self, target, 2 * mean_factor(self, reduction));
  return grad_input;
}

void smooth_l1_loss(at::TensorIteratorBase& iterator, const at::Tensor& self, const at::Tensor& target,
                    int64_t reduction, double beta, const at::Tensor& out) {
  structured_loss(kSmoothL1, iterator, self, target, reduction, out, beta);
}
at::Tensor& smooth_l1_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                        int64_t reduction, double beta, at::Tensor& grad_input) {
  backward(kSmoothL1Backward, grad_input, grad_output, self, target, mean_factor(self, reduction), beta);
  return grad_input;
}

at::Tensor huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  auto iterator = binary_iterator({}, self, target);
  run_pointwise(iterator, kHuber, delta);
  return reduced(iterator.output(), reduction);
}
at::Tensor& huber_loss_out(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta,
                           at::Tensor& out) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  auto iterator = binary_iterator(reduction == at::Reduction::None ? out : at::Tensor(), self, target);
  run_pointwise(iterator, kHuber, delta);
  return reduction == at::Reduction::None ? out : reduce_out(iterator.output(), reduction, out);
}
at::Tensor& huber_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                    int64_t reduction, double delta, at::Tensor& grad_input) {
  backward(kHuberBackward, grad_input, grad_output, self, target, mean_factor(self, reduction), delta);
  return grad_input;
}

at::Tensor& binary_cross_entropy_out(const at::Tensor& self, const at::Tensor& target,
                                     const std::optional<at::Tensor>& weight, int64_t reduction, at::Tensor& out) {
  const bool reduces = reduction != at::Reduction::None;
  at::Tensor loss = reduces ? at::empty_like(self) : out.resize_(self.sizes());
  auto iterator = binary_iterator(loss, self, target);
  run_pointwise(iterator, kBinaryCrossEntropy);
  if (weight.has_value() && weight->defined()) loss.mul_(*weight);
  return reduces ? reduce_out(loss, reduction, out) : out;
}
at::Tensor binary_cross_entropy(const at::Tensor& self, const at::Tensor& target,
                                const std::optional<at::Tensor>& weight, int64_t reduction) {
  at::Tensor out = reduction == at::Reduction::None ? at::empty_like(self) : at::empty({}, self.options());
  return binary_cross_entropy_out(self, target, weight, reduction, out);
}
at::Tensor& binary_cross_entropy_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                              const at::Tensor& target, const std::optional<at::Tensor>& weight,
                                              int64_t reduction, at::Tensor& grad_input) {
  grad_input.resize_as_(self);
  backward(kBinaryCrossEntropyBackward, grad_input, grad_output, self, target);
  if (weight.has_value() && weight->defined()) grad_input.mul_(*weight);
  if (reduction == at::Reduction::Mean) grad_input.div_(self.numel());
  return grad_input;
}
at::Tensor binary_cross_entropy_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                         const at::Tensor& target, const std::optional<at::Tensor>& weight,
                                         int64_t reduction) {
  at::Tensor grad_input = at::empty_like(self);
  return binary_cross_entropy_backward_out(grad_output, self, target, weight, reduction, grad_input);
}

}  // namespace atalla::aten
