// SPDX-License-Identifier: BSD-3-Clause
//
// Arithmetic, sums and layer norms of nested tensors of strided layout.
#include <ATen/native/nested/NestedTensorMath.h>
#include <ATen/ops/add_native.h>
#include <ATen/ops/mul_native.h>

#include "aten/kernels/nested/padding.h"

namespace atalla::aten {

namespace {

using at::native::get_nested_tensor_impl;
using at::native::wrap_buffer;

// [rows, *normalized_shape], of a buffer.
Tensor rows_of_shape(const Tensor& buffer, IntArrayRef shape) {
  DimVector sizes{-1};
  sizes.append(shape.begin(), shape.end());
  if (buffer.numel() == 0) sizes[0] = 0;
  return buffer.view(sizes);
}

// [rows, 1, ...], as native_layer_norm keeps mean and rstd.
Tensor per_row(const Tensor& t, size_t normalized) {
  DimVector sizes(normalized + 1, 1);
  sizes[0] = t.numel();
  return t.view(sizes);
}

}  // namespace

Tensor nested_sum(const Tensor& self, OptionalIntArrayRef dims, bool keepdim, std::optional<ScalarType> dtype) {
  TORCH_CHECK(dims.has_value() && dims->size() == 1,
              "NestedTensor only allows reduction of a single dimension for now.");
  const int64_t dim = at::maybe_wrap_dim((*dims)[0], self.dim());
  TORCH_CHECK(dim == self.dim() - 1,
              "NestedTensor can only be reduced across the last dimension for now got dimension ", dim, " instead.");
  TORCH_CHECK(keepdim, "NestedTensor always requires keepdim=True for now.");
  TORCH_CHECK(!dtype.has_value(), "NestedTensor does not support dtype argument for now.");
  const auto* impl = get_nested_tensor_impl(self);
  TORCH_CHECK(at::native::nested_tensor_impl_is_contiguous(impl),
              "NestedTensor does not support reductions when the input is noncontiguous for now.");
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool,
                              "the sum of a nested tensor is not implemented for 'Bool'");
  if (impl->size(0) == 0) return self;
  Tensor sizes = impl->get_nested_sizes().clone();
  sizes.select(1, -1).fill_(1);
  return at::_nested_from_padded(at::sum(to_padded(self, 0), {-1}, /*keepdim=*/true, self.scalar_type()), sizes);
}

Tensor nested_sum_backward(const Tensor& grad, const Tensor& self, OptionalIntArrayRef, bool) {
  const Tensor& sizes = component_sizes(self);
  const Tensor padded = to_padded(grad.contiguous(), 0);
  DimVector shape(padded.sizes().begin(), padded.sizes().end());
  shape.back() = largest_sizes(sizes).back();
  return at::_nested_from_padded(padded.expand(shape), sizes);
}

std::tuple<Tensor, Tensor, Tensor> nested_layer_norm(const Tensor& input, IntArrayRef shape,
                                                     const std::optional<Tensor>& weight,
                                                     const std::optional<Tensor>& bias, double eps) {
  TORCH_CHECK_VALUE(weight.has_value() && weight->defined() && bias.has_value() && bias->defined(),
                    "NestedTensor layer_norm requires weight and bias");
  TORCH_CHECK(!weight->is_nested(), "NestedTensor weight not supported for layer_norm");
  TORCH_CHECK(!bias->is_nested(), "NestedTensor bias not supported for layer_norm");
  const auto* impl = get_nested_tensor_impl(input);
  TORCH_CHECK(at::native::nested_tensor_impl_is_contiguous(impl),
              "expected a contiguous nested tensor for layer_norm; call contiguous() first");
  at::native::_check_nested_layer_norm_inputs(*impl, shape, *weight, *bias);
  const auto [out, mean, rstd] =
      at::native_layer_norm(rows_of_shape(impl->get_buffer(), shape), shape, weight, bias, eps);
  return {wrap_buffer(out.view({-1}), impl->get_nested_sizes()), mean.view({-1}), rstd.view({-1})};
}

std::tuple<Tensor, Tensor, Tensor> nested_layer_norm_backward(const Tensor& grad, const Tensor& input,
                                                              IntArrayRef shape, const Tensor& mean, const Tensor& rstd,
                                                              const std::optional<Tensor>& weight,
                                                              const std::optional<Tensor>& bias,
                                                              std::array<bool, 3> mask) {
  const auto* impl = get_nested_tensor_impl(input);
  const Tensor grad_rows = rows_of_shape(get_nested_tensor_impl(grad.contiguous())->get_buffer(), shape);
  auto [grad_input, grad_weight, grad_bias] =
      at::native_layer_norm_backward(grad_rows, rows_of_shape(impl->get_buffer(), shape), shape,
                                     per_row(mean, shape.size()), per_row(rstd, shape.size()), weight, bias, mask);
  if (mask[0]) grad_input = wrap_buffer(grad_input.contiguous().view({-1}), impl->get_nested_sizes());
  return {grad_input, grad_weight, grad_bias};
}

namespace {

bool has_dense_rows(const Tensor& nested, const Tensor& dense) {
  if (!nested.is_nested() || dense.is_nested() || nested.dim() != dense.dim()) return false;
  const auto* impl = at::native::get_nested_tensor_impl(nested);
  const bool one_row = dense.dim() >= 2 && dense.size(0) == impl->size(0) && dense.size(1) == 1;
  return one_row && (dense.dim() == 2 || (dense.dim() == 3 && impl->opt_size(2) == dense.size(2)));
}

template <typename F>
Tensor with_dense_rows(const Tensor& nested, const Tensor& dense, const F& f) {
  const Tensor contiguous = nested.contiguous();
  const Tensor& sizes = component_sizes(contiguous);
  const int64_t width = dense.dim() == 2 ? 1 : dense.size(2);
  const Tensor buffer = at::native::get_buffer(contiguous);
  const Tensor component = at::repeat_interleave(sizes.select(1, 0)).to(buffer.device());
  const Tensor rows = dense.reshape({-1, width}).index_select(0, component);
  return at::native::wrap_buffer(f(buffer.view(rows.sizes()), rows).view({-1}), sizes);
}

}  // namespace

Tensor nested_add(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  if (!has_dense_rows(self, other)) return at::native::NestedTensor_add_Tensor(self, other, alpha);
  return with_dense_rows(self, other, [&](const Tensor& a, const Tensor& b) { return at::add(a, b, alpha); });
}

Tensor nested_mul(const Tensor& self, const Tensor& other) {
  if (!has_dense_rows(self, other)) return at::native::NestedTensor_mul_Tensor(self, other);
  return with_dense_rows(self, other, [](const Tensor& a, const Tensor& b) { return at::mul(a, b); });
}

}  // namespace atalla::aten
