// SPDX-License-Identifier: BSD-3-Clause
//
// Losses: a pointwise kernel, then the reduction that the caller asks for; and margin losses, a launch each.
#include <ATen/native/LossMulti.h>

#include "aten/kernels/adaptor.h"
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

namespace {

void check_long(const Tensor& target) {
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
}

// A gradient of one value stands for all rows.
int64_t row_stride(const Tensor& gradient) {
  return gradient.dim() == 1 && gradient.size(0) > 1 ? gradient.stride(0) : 0;
}

// Nothing to add up: 0 rows.
Tensor& fill_empty(Tensor& out) { return out.numel() > 0 ? out.zero_() : out; }

// The scores are [rows, columns].
struct Shape {
  int64_t rows = 0, columns = 0;
};

Shape check_multi_margin(const Tensor& self, const Tensor& target, const Scalar& p, const Tensor& weight) {
  Shape shape;
  at::native::multi_margin_loss_shape_check(shape.rows, shape.columns, self.dim(), self, target, weight);
  TORCH_CHECK(p.toDouble() == 1 || p.toDouble() == 2, "only p == 1 and p == 2 supported");
  check_long(target);
  return shape;
}

Shape check_multilabel_margin(const Tensor& self, const Tensor& target) {
  Shape shape;
  at::native::multilabel_margin_loss_shape_check(shape.rows, shape.columns, self.dim(), self, target);
  check_long(target);
  return shape;
}

void resize_gradient(const Tensor& self, const Tensor& grad_input) {
  at::native::resize_output(grad_input, self.sizes());
  TORCH_CHECK(grad_input.is_contiguous(), "grad_input must be contiguous");
}

Tensor dense(const Tensor& weight) { return weight.defined() ? weight.contiguous() : weight; }

// Without a reduction, the kernels write the losses of rows: [1] for the one of a target without dimensions.
Tensor losses(const Tensor& out, int64_t reduction) {
  return reduction == at::Reduction::None && out.dim() == 0 ? out.unsqueeze(0) : out;
}

}  // namespace

Tensor& multi_margin_loss_out(const Tensor& self, const Tensor& target, const Scalar& p, const Scalar& margin,
                              const Tensor& weight, int64_t reduction, Tensor& out) {
  const auto [rows, columns] = check_multi_margin(self, target, p, weight);
  const bool single = reduction != at::Reduction::None || target.dim() == 0;
  at::native::resize_output(out, single ? IntArrayRef{} : IntArrayRef{rows});
  if (self.numel() == 0) return fill_empty(out);
  launch(kMultiMarginLoss, self.scalar_type(), {losses(out, reduction)},
         {{self.contiguous(), {rows, columns}, {columns, 1}},
          {target.contiguous(), {rows}, {1}},
          {dense(weight), {columns}, {1}}},
         MultiMarginLossParameters{
             .reduction = static_cast<LossReduction>(reduction), .p = p.toLong(), .margin = margin.toDouble()});
  return out;
}

std::tuple<Tensor&, Tensor&> multilabel_margin_loss_forward_out(const Tensor& self, const Tensor& target,
                                                                int64_t reduction, Tensor& output, Tensor& is_target) {
  const auto [rows, columns] = check_multilabel_margin(self, target);
  const bool single = reduction != at::Reduction::None || target.dim() <= 1;
  at::native::resize_output(output, single ? IntArrayRef{} : IntArrayRef{rows});
  at::native::resize_output(is_target, target.sizes());
  TORCH_CHECK(is_target.is_contiguous(), "is_target must be contiguous");
  if (self.numel() == 0) {
    fill_empty(output);
    return {output, is_target};
  }
  const std::array<int64_t, 2> sizes{rows, columns}, strides{columns, 1};
  launch(kMultilabelMarginLoss, self.scalar_type(), {losses(output, reduction), {is_target, sizes, strides}},
         {{self.contiguous(), sizes, strides}, {target.contiguous(), sizes, strides}},
         MultilabelMarginLossParameters{.reduction = static_cast<LossReduction>(reduction)});
  return {output, is_target};
}

Tensor& multi_margin_loss_backward_out(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                                       const Scalar& p, const Scalar& margin, const Tensor& weight, int64_t reduction,
                                       Tensor& grad_input) {
  const auto [rows, columns] = check_multi_margin(self, target, p, weight);
  resize_gradient(self, grad_input);
  const std::array<int64_t, 2> sizes{rows, columns}, strides{columns, 1};
  launch(kMultiMarginLossBackward, self.scalar_type(), {{grad_input, sizes, strides}},
         {{grad_output, {rows}, {row_stride(grad_output)}},
          {self.contiguous(), sizes, strides},
          {target.contiguous(), {rows}, {1}},
          {dense(weight), {columns}, {1}}},
         MultiMarginLossBackwardParameters{
             .reduction = static_cast<LossReduction>(reduction), .p = p.toLong(), .margin = margin.toDouble()});
  return grad_input;
}

Tensor& multilabel_margin_loss_backward_out(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                                            int64_t reduction, const Tensor& is_target, Tensor& grad_input) {
  const auto [rows, columns] = check_multilabel_margin(self, target);
  TORCH_CHECK(is_target.sizes() == target.sizes(),
              "Expected tensor for argument #3 'target' to have same size as "
              "tensor for argument #5 'is_target'; but ",
              target.sizes(), " does not equal ", is_target.sizes(),
              " (while checking arguments for multilabel_margin_loss_backward_cpu_template)");
  resize_gradient(self, grad_input);
  const std::array<int64_t, 2> sizes{rows, columns}, strides{columns, 1};
  launch(kMultilabelMarginLossBackward, self.scalar_type(), {{grad_input, sizes, strides}},
         {{grad_output, {rows}, {row_stride(grad_output)}},
          {self.contiguous(), sizes, strides},
          {target.contiguous(), sizes, strides},
          {is_target.contiguous(), sizes, strides}},
         MultilabelMarginLossBackwardParameters{.reduction = static_cast<LossReduction>(reduction)});
  return grad_input;
}

}  // namespace atalla::aten
