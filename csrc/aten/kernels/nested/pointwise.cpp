// SPDX-License-Identifier: BSD-3-Clause
//
// Sums and products of a nested tensor of strided layout with a dense one: [B, *, D] with [B, 1, D], and [B, *] with
// [B, 1], as on CUDA. PyTorch's kernels do the rest.
#include <ATen/ops/add_native.h>
#include <ATen/ops/mul_native.h>

#include "aten/kernels/nested/padding.h"

namespace atalla::aten {

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
