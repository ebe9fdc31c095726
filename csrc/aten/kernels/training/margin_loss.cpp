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

}  // namespace

Tensor& multi_margin_loss_out(const Tensor& self, const Tensor& target, const Scalar& p, const Scalar& margin,
                              const std::optional<Tensor>& weight, int64_t reduction, Tensor& out) {
  int64_t rows = 0, columns = 0;
  at::native::multi_margin_loss_shape_check(rows, columns, self.dim(), self, target, weight);
  const double power = p.toDouble();
  TORCH_CHECK(power == 1 || power == 2, "only p == 1 and p == 2 supported");
  check_long(target);
  at::native::resize_output(out,
                            reduction != at::Reduction::None || target.dim() == 0 ? IntArrayRef{} : IntArrayRef{rows});
  if (self.numel() == 0) return fill_empty(out);
  const Tensor scores = self.contiguous(), classes = target.contiguous();
  const Tensor weights = weight.has_value() && weight->defined() ? weight->contiguous() : Tensor();
  LaunchBuilder builder(kMultiMargin, self.scalar_type());
  builder.output(out).input(scores, {rows, columns}, {columns, 1}).input(classes, {rows}, {1});
  if (weights.defined()) builder.input(weights, {columns}, {1});
  else builder.absent();
  builder
      .parameters(MultiMarginLossParameters{
          .reduction = reduction, .p = static_cast<int64_t>(power), .margin = margin.toDouble()})
      .launch(self.device());
  return out;
}

std::tuple<Tensor&, Tensor&> multilabel_margin_loss_forward_out(const Tensor& self, const Tensor& target,
                                                                int64_t reduction, Tensor& output, Tensor& is_target) {
  int64_t rows = 0, columns = 0;
  at::native::multilabel_margin_loss_shape_check(rows, columns, self.dim(), self, target);
  check_long(target);
  at::native::resize_output(output,
                            reduction != at::Reduction::None || target.dim() <= 1 ? IntArrayRef{} : IntArrayRef{rows});
  at::native::resize_output(is_target, target.sizes());
  TORCH_CHECK(is_target.is_contiguous(), "is_target must be contiguous");
  if (self.numel() == 0) {
    fill_empty(output);
    return {output, is_target};
  }
  const Tensor scores = self.contiguous(), labels = target.contiguous();
  const std::array<int64_t, 2> sizes{rows, columns}, strides{columns, 1};
  LaunchBuilder(kMultilabelMargin, self.scalar_type())
      .output(output)
      .output(is_target, sizes, strides)
      .input(scores, sizes, strides)
      .input(labels, sizes, strides)
      .parameters(MultilabelMarginLossParameters{.reduction = reduction})
      .launch(self.device());
  return {output, is_target};
}

Tensor& multi_margin_loss_backward_out(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                                       const Scalar& p, const Scalar& margin, const std::optional<Tensor>& weight,
                                       int64_t reduction, Tensor& grad_input) {
  int64_t rows = 0, columns = 0;
  at::native::multi_margin_loss_shape_check(rows, columns, self.dim(), self, target, weight);
  const double power = p.toDouble();
  TORCH_CHECK(power == 1 || power == 2, "only p == 1 and p == 2 supported");
  check_long(target);
  at::native::resize_output(grad_input, self.sizes());
  TORCH_CHECK(grad_input.is_contiguous(), "grad_input must be contiguous");
  if (self.numel() == 0) return grad_input;
  const Tensor scores = self.contiguous(), classes = target.contiguous();
  const Tensor weights = weight.has_value() && weight->defined() ? weight->contiguous() : Tensor();
  const std::array<int64_t, 2> sizes{rows, columns}, strides{columns, 1};
  LaunchBuilder builder(kMultiMarginBackward, self.scalar_type());
  builder.output(grad_input, sizes, strides).input(grad_output, {rows}, {row_stride(grad_output)});
  builder.input(scores, sizes, strides).input(classes, {rows}, {1});
  if (weights.defined()) builder.input(weights, {columns}, {1});
  else builder.absent();
  builder
      .parameters(MultiMarginLossBackwardParameters{
          .reduction = reduction, .p = static_cast<int64_t>(power), .margin = margin.toDouble()})
      .launch(self.device());
  return grad_input;
}

Tensor& multilabel_margin_loss_backward_out(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                                            int64_t reduction, const Tensor& is_target, Tensor& grad_input) {
  int64_t rows = 0, columns = 0;
  at::native::multilabel_margin_loss_shape_check(rows, columns, self.dim(), self, target);
  check_long(target);
  TORCH_CHECK(is_target.sizes() == target.sizes(),
              "Expected tensor for argument #3 'target' to have same size as "
              "tensor for argument #5 'is_target'; but ",
              target.sizes(), " does not equal ", is_target.sizes(),
              " (while checking arguments for multilabel_margin_loss_backward_cpu_template)");
  at::native::resize_output(grad_input, self.sizes());
  TORCH_CHECK(grad_input.is_contiguous(), "grad_input must be contiguous");
  if (self.numel() == 0) return grad_input;
  const Tensor scores = self.contiguous(), labels = target.contiguous(), flags = is_target.contiguous();
  const std::array<int64_t, 2> sizes{rows, columns}, strides{columns, 1};
  LaunchBuilder(kMultilabelMarginBackward, self.scalar_type())
      .output(grad_input, sizes, strides)
      .input(grad_output, {rows}, {row_stride(grad_output)})
      .input(scores, sizes, strides)
      .input(labels, sizes, strides)
      .input(flags, sizes, strides)
      .parameters(MultilabelMarginLossBackwardParameters{.reduction = reduction})
      .launch(self.device());
  return grad_input;
}

}  // namespace atalla::aten
