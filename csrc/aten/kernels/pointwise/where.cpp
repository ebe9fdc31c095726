// SPDX-License-Identifier: BSD-3-Clause
//
// Selection under a condition or a mask.

#include <ATen/MemoryOverlap.h>

#include "aten/device/empty.h"
#include "aten/dispatch/fallback.h"
#include "aten/kernels/pointwise/scalar_check.h"
#include "aten/launch/dense.h"

namespace atalla::aten {

namespace {

void check_condition(const Tensor& condition) {
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
}

// Launches into `out`, or into a new tensor in the layout of the inputs, as upstream's iterator chooses it.
Tensor launch_where(const Tensor& condition, const Tensor& self, const Tensor& other, const Tensor& out,
                    ScalarType dtype) {
  check_condition(condition);
  // An iterator takes one CPU scalar; the value of a second one becomes a tensor.
  if (self.is_cpu() && self.dim() == 0 && other.is_cpu() && other.dim() == 0 && condition.is_privateuseone())
    return launch_where(condition, at::full({}, self.item(), self.options().device(condition.device())), other, out,
                        dtype);
  const Tensor& placed = self.dim() > 0 || self.is_privateuseone() ? self
                         : other.is_privateuseone()                ? other
                                                                   : condition;
  TensorIteratorConfig config;
  config.check_all_same_dtype(false);
  if (!out.defined()) config.declare_static_dtype_and_device(dtype, placed.device());
  auto iterator = config.allow_cpu_scalars(true)
                      .add_output(out)
                      .add_const_input(condition)
                      .add_const_input(self)
                      .add_const_input(other)
                      .build();
  if (iterator.numel() > 0) launch_operands(iterator, kPointwiseWhere.kernel, dtype);
  return iterator.output();
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  const ScalarType same = self.scalar_type();
  if (are_dense(condition, {&self}) && condition.scalar_type() == at::kBool && other.scalar_type() == same) {
    // As torch.where(condition, x, 0) calls it.
    const bool one = other.dim() == 0 && other.device() == self.device() && has_default_strides(condition) &&
                     has_default_strides(self);
    if (one || are_dense(condition, {&other})) {
      const int64_t n = condition.numel();
      Tensor out = empty(condition.sizes(), same, condition.device().index());
      LaunchBuilder(kPointwiseWhere.kernel, same)
          .output_elements(out.mutable_data_ptr(), same, n)
          .elements(condition.const_data_ptr(), at::kBool, n)
          .elements(self.const_data_ptr(), same, n)
          .elements(other.const_data_ptr(), same, n, one ? 0 : 1)
          .launch(condition.device());
      return out;
    }
  }
  return launch_where(condition, self, other, Tensor(), at::result_type(self, other));
}

Tensor& where_out(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  const ScalarType dtype = at::result_type(self, other);
  TORCH_CHECK(out.scalar_type() == dtype, "Expected out type to be ", dtype, " but got ", out.scalar_type());
  launch_where(condition, self, other, out, dtype);
  return out;
}

Tensor& masked_fill_tensor(Tensor& self, const Tensor& mask, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes)
    TORCH_WARN(
        "Use of masked_fill_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. This also applies to advanced indexing e.g. tensor[mask] = scalar");
  at::assert_no_partial_overlap(self, mask);
  if (value.is_cpu() || (value.is_complex() && !self.is_complex())) {
    const Scalar number = value.item();
    check_scalar(number, self.scalar_type());
    if (value.is_complex() && !self.is_complex()) {
      return masked_fill_tensor(self, mask, at::scalar_to_tensor(number.toComplexDouble().real()));
    }
  }
  auto iterator = TensorIteratorConfig()
                      .set_check_mem_overlap(false)
                      .check_all_same_dtype(false)
                      .resize_outputs(false)
                      .allow_cpu_scalars(true)
                      .add_output(self)
                      .add_const_input(self)
                      .add_const_input(mask)
                      .add_const_input(value)
                      .build();
  if (iterator.numel() == 0) return self;
  launch_operands(iterator, kPointwiseMaskedFill.kernel, self.scalar_type());
  return self;
}

Tensor& masked_fill_scalar(Tensor& self, const Tensor& mask, const Scalar& value) {
  const ScalarType dtype = self.scalar_type();
  const bool is_dense = are_dense(self, {&mask}) && mask.scalar_type() == at::kBool && !self.is_alias_of(mask);
  if (!is_dense || value.isComplex()) return masked_fill_tensor(self, mask, at::scalar_to_tensor(value));
  check_scalar(value, dtype);
  LaunchBuilder(kPointwiseMaskedFill.kernel, dtype)
      .output_elements(self.mutable_data_ptr(), dtype, self.numel())
      .elements(self.const_data_ptr(), dtype, self.numel())
      .elements(mask.const_data_ptr(), at::kBool, self.numel())
      .immediate(value, wide_dtype(value, dtype))
      .launch(self.device());
  return self;
}

}  // namespace atalla::aten
