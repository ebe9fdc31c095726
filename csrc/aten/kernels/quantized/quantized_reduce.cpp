// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions, sorting and joining of quantized tensors. Order and places of elements are those of their integers.
#include <ATen/native/ReduceOpsUtils.h>

#include "aten/kernels/quantized/quantized.h"

namespace atalla::aten {

Tensor quantized_cat(const at::ITensorListRef& tensors, int64_t dim);
Tensor quantized_index_select(const Tensor& self, int64_t dim, const Tensor& index);

Tensor quantized_max(const Tensor& self) { return quantized_over(integers_of(self).max(), self); }
Tensor quantized_min(const Tensor& self) { return quantized_over(integers_of(self).min(), self); }
Tensor& quantized_max_out(const Tensor& self, Tensor& out) { return quantized_result(quantized_max(self), out); }
Tensor& quantized_min_out(const Tensor& self, Tensor& out) { return quantized_result(quantized_min(self), out); }

Tensor quantized_mean(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype) {
  return quantized_as(at::mean(self.dequantize(), dim, keepdim, dtype), self);
}
Tensor& quantized_mean_out(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype,
                           Tensor& out) {
  return quantized_result(quantized_mean(self, dim, keepdim, dtype), out);
}

Tensor quantized_std(const Tensor& self, OptionalIntArrayRef dim, const std::optional<Scalar>& correction,
                     bool keepdim) {
  return quantized_as(at::std(self.dequantize(), dim, correction, keepdim), self);
}
Tensor& quantized_std_out(const Tensor& self, OptionalIntArrayRef dim, const std::optional<Scalar>& correction,
                          bool keepdim, Tensor& out) {
  return quantized_result(quantized_std(self, dim, correction, keepdim), out);
}

std::tuple<Tensor, Tensor> quantized_sort(const Tensor& self, std::optional<bool> stable, int64_t dim,
                                          bool descending) {
  check_per_tensor("sort", self);
  auto [integers, places] = at::sort(integers_of(self), stable, dim, descending);
  return {quantized_over(integers, self), places};
}

std::tuple<Tensor, Tensor> quantized_topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted) {
  check_per_tensor("topk", self);
  auto [integers, places] = at::topk(integers_of(self), k, dim, largest, sorted);
  return {quantized_over(integers, self), places};
}

Tensor& quantized_cat_out(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  std::vector<Tensor> values;
  for (const Tensor& t : tensors) values.push_back(t.dequantize());
  return quantize_into(at::cat(values, dim), out);
}

Tensor& quantized_index_select_out(const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  return quantized_result(quantized_index_select(self, dim, index), out);
}

std::vector<Tensor> quantized_dequantize(TensorList tensors) {
  std::vector<Tensor> values;
  for (const Tensor& t : tensors) values.push_back(t.dequantize());
  return values;
}

}  // namespace atalla::aten
