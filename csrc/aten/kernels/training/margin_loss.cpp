// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/native/LossMulti.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

const Kernel kMultiMargin("multi_margin_loss"), kMultilabelMargin("multilabel_margin_loss"),
    kMultiMarginBackward("multi_margin_loss_backward"), kMultilabelMarginBackward("multilabel_margin_loss_backward");

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
  launch(kMultiMargin, self.scalar_type(), {losses(out, reduction)},
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
  launch(kMultilabelMargin, self.scalar_type(), {losses(output, reduction), {is_target, sizes, strides}},
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
  launch(kMultiMarginBackward, self.scalar_type(), {{grad_input, sizes, strides}},
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
  launch(kMultilabelMarginBackward, self.scalar_type(), {{grad_input, sizes, strides}},
         {{grad_output, {rows}, {row_stride(grad_output)}},
          {self.contiguous(), sizes, strides},
          {target.contiguous(), sizes, strides},
          {is_target.contiguous(), sizes, strides}},
         MultilabelMarginLossBackwardParameters{.reduction = static_cast<LossReduction>(reduction)});
  return grad_input;
}

}  // namespace atalla::aten
