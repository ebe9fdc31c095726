// SPDX-License-Identifier: BSD-3-Clause
//
// Sorting and joining of quantized tensors. Order and places of elements are those of their integers.
#include "aten/kernels/quantized/quantized.h"

namespace atalla::aten {

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

std::vector<Tensor> quantized_dequantize(TensorList tensors) {
  std::vector<Tensor> values;
  for (const Tensor& t : tensors) values.push_back(t.dequantize());
  return values;
}

}  // namespace atalla::aten
