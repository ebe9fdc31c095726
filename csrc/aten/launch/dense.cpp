// SPDX-License-Identifier: BSD-3-Clause
#include "aten/launch/dense.h"

#include <algorithm>

#include "aten/device/empty.h"
#include "aten/launch/launch_recorder.h"

namespace atalla::aten {
namespace {

bool is_contiguous_on_device(const at::Tensor& t) { return t.defined() && t.is_privateuseone() && t.is_contiguous(); }

bool is_like(const at::Tensor& t, const at::Tensor& first, c10::ScalarType dtype) {
  return is_contiguous_on_device(t) && t.scalar_type() == dtype && t.device() == first.device() &&
         t.sizes() == first.sizes();
}

bool has(c10::ScalarType integer, int64_t value) {
  if (integer == at::kLong) return true;
  const auto bits = 8 * c10::elementSize(integer) - (c10::isSignedType(integer) ? 1 : 0);
  return value >> bits == (value < 0 && c10::isSignedType(integer) ? -1 : 0);
}

// Which does not change the dtype of the result. Upstream's metas check bools.
bool is_real_scalar(const at::Tensor& t, c10::ScalarType dtype) {
  if (!t.defined() || !t.is_cpu() || t.dim() != 0 || t.layout() != c10::kStrided) return false;
  if (!c10::isFloatingType(dtype)) return t.scalar_type() == at::kLong && has(dtype, *t.const_data_ptr<int64_t>());
  return !t.is_complex() && t.scalar_type() != at::kBool && takes_dtype(kChipDtypes, t.scalar_type());
}

bool is_real(const at::Scalar& alpha, c10::ScalarType dtype) {
  return alpha.isIntegral(/*includeBool=*/false) || (alpha.isFloatingPoint() && c10::isFloatingType(dtype));
}

bool overlaps_in_part(const at::Tensor& out, const at::Tensor& input) {
  return out.is_alias_of(input) && out.const_data_ptr() != input.const_data_ptr();
}

}  // namespace

bool has_default_strides(const at::Tensor& t) {
  int64_t stride = 1;
  for (int64_t d = t.dim() - 1; d >= 0; --d) {
    if (t.stride(d) != stride) return false;
    stride *= t.size(d);
  }
  return true;
}

bool are_dense(const at::Tensor& first, std::initializer_list<const at::Tensor*> others) {
  if (records() || !is_contiguous_on_device(first) || first.dim() == 0 || first.numel() == 0) return false;
  return std::ranges::all_of(others, [&](const at::Tensor* t) { return is_like(*t, first, t->scalar_type()); });
}

bool launch_dense(const PointwiseKernel& kernel, c10::ScalarType result, at::Tensor& out,
                  std::initializer_list<const at::Tensor*> inputs, const at::Scalar* alpha) {
  const at::Tensor& first = **inputs.begin();
  if (records() || !is_contiguous_on_device(first) || first.dim() == 0 || first.numel() == 0) return false;
  const c10::ScalarType dtype = first.scalar_type();
  if (dtype == at::kBool || c10::isComplexType(dtype) || !kernel.takes(dtype)) return false;
  if (alpha != nullptr && !is_real(*alpha, dtype)) return false;
  if (result == c10::ScalarType::Undefined) result = dtype;
  const bool is_given = out.defined();
  if (is_given && !is_like(out, first, result)) return false;
  for (const at::Tensor* t : inputs) {
    const bool fits =
        t == &first || is_like(*t, first, dtype) || (is_real_scalar(*t, dtype) && has_default_strides(first));
    if (!fits) return false;
    if (is_given && overlaps_in_part(out, *t)) return false;
  }
  if (!is_given) out = empty(first.sizes(), result, first.device().index());
  LaunchBuilder builder(kernel.kernel, dtype);
  builder.output_elements(out.mutable_data_ptr(), result, first.numel());
  for (const at::Tensor* t : inputs)
    builder.elements(t->const_data_ptr(), t->scalar_type(), t->is_cpu() ? 0 : first.numel());
  if (alpha != nullptr) {
    const ScalarParam scalar(*alpha);
    builder.scalars(&scalar, 1);
  } else {
    builder.scalars(nullptr, 0);
  }
  builder.launch(first.device());
  return true;
}

}  // namespace atalla::aten
