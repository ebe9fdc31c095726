// SPDX-License-Identifier: BSD-3-Clause
//
// Negative log likelihood. The chip sees scores [n, c, s] and targets [n, s]: s is the image for the 2-d form, else 1.

#include <limits>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

struct Strided {
  DimVector sizes, strides;
};

// [n, c, h, w] -> [n, c, h * w]; [n, c] -> [n, c, 1]; [c] -> [1, c, 1]. The image is contiguous.
Strided scores_view(const Tensor& t) {
  if (t.dim() == 1) return {{1, t.size(0), 1}, {0, t.stride(0), 0}};
  if (t.dim() == 2) return {{t.size(0), t.size(1), 1}, {t.stride(0), t.stride(1), 0}};
  return {{t.size(0), t.size(1), t.size(2) * t.size(3)}, {t.stride(0), t.stride(1), 1}};
}
// Targets, losses and gradients of them; a single value stands for all of [n, s].
Strided samples_view(const Tensor& t, const Strided& scores) {
  const int64_t n = scores.sizes[0], s = scores.sizes[2];
  if (t.dim() == 3) return {{n, s}, {t.stride(0), 1}};
  return {{n, s}, {t.dim() == 1 && t.size(0) == n && n > 1 ? t.stride(0) : 0, 0}};
}
Tensor image_contiguous(const Tensor& t) {
  if (t.dim() < 3 || (t.stride(-1) == 1 && t.stride(-2) == t.size(-1))) return t;
  return t.contiguous();
}

void check_dtypes(const char* name, const Tensor& scores, const Tensor& target, const Tensor& weight) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(scores.scalar_type()), "\"", name, "\" not implemented for '",
                              scores.scalar_type(), "'");
  TORCH_CHECK(target.scalar_type() == at::kLong || (target.scalar_type() == at::kByte && target.dim() <= 1),
              "expected scalar type Long but found ", target.scalar_type());
  TORCH_CHECK(!weight.defined() || weight.scalar_type() == scores.scalar_type(), "expected scalar type ",
              scores.scalar_type(), " but found ", weight.scalar_type());
}

void forward(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignore_index,
             const Tensor& output, const Tensor& total_weight) {
  const Tensor scores = image_contiguous(self), samples = image_contiguous(target);
  const Strided view = scores_view(scores), chosen = samples_view(samples, view);
  Strided losses{DimVector(output.sizes()), DimVector(output.strides())};
  if (reduction == at::Reduction::None && output.dim() > 0) losses = samples_view(output, view);
  else if (reduction == at::Reduction::None) reduction = at::Reduction::Sum;  // one sample: upstream's total weight
  launch(kNllLoss, self.scalar_type(), {{output, losses.sizes, losses.strides}, total_weight},
         {{scores, view.sizes, view.strides}, {samples, chosen.sizes, chosen.strides}, weight},
         NllLossParameters{.reduction = static_cast<LossReduction>(reduction), .ignore_index = ignore_index});
}

void backward(const Tensor& grad_output, const Tensor& target, const Tensor& weight, int64_t reduction,
              int64_t ignore_index, const Tensor& total_weight, const Tensor& grad_input) {
  grad_input.zero_();
  if (target.numel() == 0) return;
  const Tensor samples = image_contiguous(target), gradient = image_contiguous(grad_output);
  const Strided view = scores_view(grad_input), chosen = samples_view(samples, view),
                given = samples_view(gradient, view);
  launch(kNllLossBackward, grad_input.scalar_type(), {{grad_input, view.sizes, view.strides}},
         {{gradient, given.sizes, given.strides}, {samples, chosen.sizes, chosen.strides}, weight, total_weight},
         NllLossBackwardParameters{.reduction = static_cast<LossReduction>(reduction), .ignore_index = ignore_index});
}

void fill_empty(int64_t reduction, const Tensor& output, const Tensor& total_weight) {
  if (reduction != at::Reduction::None)
    output.fill_(reduction == at::Reduction::Mean ? std::numeric_limits<double>::quiet_NaN() : 0.0);
  total_weight.zero_();
}

void check_2d(const Tensor& self, const Tensor& target, const Tensor& weight) {
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(!weight.defined() || weight.numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

}  // namespace

void nll_loss_forward(const Tensor& self, const Tensor& target, OptionalTensorRef weight, int64_t reduction,
                      int64_t ignore_index, const Tensor& output, const Tensor& total_weight) {
  check_dtypes("nll_loss_out_frame", self, target, weight.getTensorRef());
  if (target.numel() == 0)
    return fill_empty(output.dim() > 0 ? int64_t{at::Reduction::None} : reduction, output, total_weight);
  forward(self, target, weight.getTensorRef(), reduction, ignore_index, output, total_weight);
}

void nll_loss_backward(const Tensor& grad_output, const Tensor& self, const Tensor& target, OptionalTensorRef weight,
                       int64_t reduction, int64_t ignore_index, const Tensor& total_weight, const Tensor& grad_input) {
  check_dtypes("nll_loss_backward_out_frame", self, target, weight.getTensorRef());
  backward(grad_output, target, weight.getTensorRef(), reduction, ignore_index, total_weight, grad_input);
}

std::tuple<Tensor&, Tensor&> nll_loss2d_forward_out(const Tensor& self, const Tensor& target, const Tensor& weight,
                                                    int64_t reduction, int64_t ignore_index, Tensor& output,
                                                    Tensor& total_weight) {
  check_2d(self, target, weight);
  check_dtypes("nll_loss2d_forward_out_frame", self, target, weight);
  at::native::resize_output(total_weight, {});
  at::native::resize_output(output, reduction == at::Reduction::None ? target.sizes() : IntArrayRef{});
  if (target.numel() == 0) {
    fill_empty(reduction, output, total_weight);
  } else if (output.dim() == 3 && !output.is_contiguous()) {
    Tensor result = empty_like_dtype(output, output.sizes(), output.scalar_type());
    forward(self, target, weight, reduction, ignore_index, result, total_weight);
    output.copy_(result);
  } else {
    forward(self, target, weight, reduction, ignore_index, output, total_weight);
  }
  return {output, total_weight};
}

Tensor& nll_loss2d_backward_out(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                                const Tensor& weight, int64_t reduction, int64_t ignore_index,
                                const Tensor& total_weight, Tensor& grad_input) {
  check_2d(self, target, weight);
  check_dtypes("nll_loss2d_backward_out_frame", self, target, weight);
  grad_input.resize_as_(self);
  TORCH_CHECK(grad_input.is_contiguous(), "grad_input must be contiguous");
  TORCH_CHECK(total_weight.numel() == 1,
              "expected total_weight to be a single element tensor, got: ", total_weight.sizes(), " (",
              total_weight.numel(), " elements)");
  if (reduction == at::Reduction::None) {
    TORCH_CHECK(grad_output.dim() == 3,
                "grad_output must have same dimension as target (3) but got dimension: ", grad_output.sizes());
    TORCH_CHECK(grad_output.sizes() == target.sizes(), "size mismatch (got grad_output: ", grad_output.sizes(),
                " target: ", target.sizes());
  } else {
    TORCH_CHECK(grad_output.dim() <= 1 && grad_output.numel() == 1,
                "Expected a single element grad_output tensor, but got: ", grad_output.sizes());
  }
  backward(grad_output, target, weight, reduction, ignore_index, total_weight, grad_input);
  return grad_input;
}

}  // namespace atalla::aten
