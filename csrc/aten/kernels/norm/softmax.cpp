// SPDX-License-Identifier: BSD-3-Clause
//
// Softmax, also of attention scores without those that a mask marks, and the gradients.
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

namespace {

// The mask in a shape that broadcasts over `self`, by upstream's mask types: 0 [L, L], 1 [B, L], 2 that of `self`.
Tensor broadcast_mask(const Tensor& self, const Tensor& mask, std::optional<int64_t> mask_type) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  // Types 0 and 1 are for scores [B, heads, L, L] and masks of two dimensions.
  if (mask.dim() != 2 || self.dim() != 4) mask_type = 2;
  TORCH_CHECK(mask_type.has_value(), "Mask Type should be defined");
  TORCH_CHECK(*mask_type >= 0 && *mask_type <= 2,
              "Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 (default_mask)");
  if (*mask_type == 2) {
    TORCH_CHECK(self.sizes() == mask.sizes(), "For mask_type == 2 mask shape should match input shape");
    return mask;
  }
  const int64_t length = self.size(2);
  if (*mask_type == 1) {
    TORCH_CHECK(self.size(0) == mask.size(0) && length == mask.size(1),
                "For mask_type == 1 mask shape should be (B, L)");
    return mask.view({self.size(0), 1, 1, length});
  }
  TORCH_CHECK(mask.size(0) == length && mask.size(1) == length, "For mask_type == 0 mask shape should be (L, L)");
  return mask;
}

}  // namespace

Tensor masked_softmax(const Tensor& self, const Tensor& mask, std::optional<int64_t> dim,
                      std::optional<int64_t> mask_type) {
  const Tensor marked = broadcast_mask(self, mask, mask_type);
  const Tensor scores = self.masked_fill(marked, -std::numeric_limits<double>::infinity());
  return at::_softmax(scores, dim.value_or(-1), false);
}

Tensor masked_softmax_backward(const Tensor& grad, const Tensor& output, const Tensor& mask,
                               std::optional<int64_t> dim) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  TORCH_CHECK(grad.sizes() == mask.sizes(), "Mask shape should match grad shape");
  const Tensor kept = grad.masked_fill(mask, 0);
  return at::_softmax_backward_data(kept, output, dim.value_or(-1), output.scalar_type()).masked_fill(mask, 0);
}

}  // namespace atalla::aten
