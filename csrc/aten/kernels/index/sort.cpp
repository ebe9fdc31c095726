// SPDX-License-Identifier: BSD-3-Clause
//
// sort, topk, kthvalue, median, mode and randperm. The kernels take outputs with the rank of the input, so a dimension
// that the result lost is described to them as one of size 1.
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/SortingUtils.h>
#include <ATen/native/TensorFactories.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// An output of `length` elements along the dim of `self`.
struct Rows {
  Rows(const Tensor& t, const Tensor& self, int64_t dim, int64_t length) : tensor(t), sizes(self.sizes()) {
    if (!t.defined()) return;
    const bool kept = t.dim() == self.dim();
    for (int64_t d = 0, o = 0; d < self.dim(); ++d) {
      const bool reduced = d == dim;
      if (reduced) sizes[d] = length;
      strides.push_back(reduced && !kept ? 0 : t.stride(o));
      if (!reduced || kept) ++o;
    }
  }
  operator Operand() const { return {tensor, sizes, strides}; }
  const Tensor& tensor;
  DimVector sizes, strides;
};

DimVector reduced_sizes(const Tensor& self, int64_t dim, bool keepdim) {
  DimVector sizes(self.sizes());
  if (self.dim() > 0 && keepdim) sizes[dim] = 1;
  if (self.dim() > 0 && !keepdim) sizes.erase(sizes.begin() + dim);
  return sizes;
}

template <class Parameters>
void launch_rows(const Kernel& kernel, const Tensor& values, const Tensor& indices, const Tensor& self, int64_t length,
                 const Parameters& parameters) {
  launch(kernel, self.scalar_type(),
         {Rows(values, self, parameters.dim, length), Rows(indices, self, parameters.dim, length)}, {self}, parameters);
}

}  // namespace

void sort(const Tensor& self, std::optional<bool> stable, int64_t dim, bool descending, const Tensor& values,
          const Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  launch_rows(kSort, values, indices, self, self.dim() > 0 ? self.size(dim) : 1,
              SortParameters{.dim = dim, .descending = descending, .any_order = stable.has_value() && !*stable});
}

void topk(const Kernel& kernel, const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted,
          const Tensor& values, const Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  launch_rows(kernel, values, indices, self, k,
              TopkParameters{.dim = dim, .k = k, .largest = largest, .sorted = sorted});
}

std::tuple<Tensor&, Tensor&> kthvalue_out(const Kernel& kernel, const Tensor& self, int64_t k, int64_t dim,
                                          bool keepdim, Tensor& values, Tensor& indices) {
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.dim() > 0 ? self.size(wrapped) : 1;
  at::native::zero_numel_check_dims(self, wrapped, "kthvalue()");
  TORCH_CHECK(k >= 1 && k <= size, "kthvalue(): selected number k out of range for dimension ", wrapped);
  at::assert_no_overlap(self, values);
  at::native::_reduction_with_indices_allocate_or_resize_output(values, indices, self, dim, keepdim);
  at::assert_no_internal_overlap(values);
  at::assert_no_internal_overlap(indices);
  launch_rows(kernel, values, indices, self, 1, KthvalueParameters{.dim = wrapped, .k = k});
  if (!keepdim && self.dim() > 0) {
    values.squeeze_(wrapped);
    indices.squeeze_(wrapped);
  }
  return {values, indices};
}

Tensor median(const Kernel& kernel, bool ignore_nan, const Tensor& self) {
  Tensor out = empty_like_dtype(self, {}, self.scalar_type());
  if (self.numel() == 0) {
    // As upstream: NaN, which converts to the lowest value of a wide integer type.
    return out.fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const Tensor flat = self.flatten();
  launch_rows(kernel, out, Tensor(), flat, 1, MedianParameters{.dim = 0, .ignore_nan = ignore_nan});
  return out;
}

std::tuple<Tensor&, Tensor&> median_dim_out(const Kernel& kernel, bool ignore_nan, const Tensor& self, int64_t dim,
                                            bool keepdim, Tensor& values, Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.dim() > 0 ? self.size(dim) : 1;
  TORCH_CHECK_INDEX(size > 0, "median(): Expected reduction dim ", dim, " to have non-zero size.");
  at::checkScalarType("median", at::TensorArg(indices, "indices", 1), at::kLong);
  at::checkSameType("median", at::TensorArg(values, "values", 0), at::TensorArg(self, "self", 2));
  const DimVector sizes = reduced_sizes(self, dim, keepdim);
  at::native::resize_output(values, sizes);
  at::native::resize_output(indices, sizes);
  launch_rows(kernel, values, indices, self, 1, MedianParameters{.dim = dim, .ignore_nan = ignore_nan});
  return {values, indices};
}

std::tuple<Tensor&, Tensor&> mode_out(const Kernel& kernel, const Tensor& self, int64_t dim, bool keepdim,
                                      Tensor& values, Tensor& indices) {
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), "expected scalar type '", self.scalar_type(), "' but got '",
              values.scalar_type(), "' for values output");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "expected scalar type '", at::kLong, "' but got '",
              indices.scalar_type(), "' for indices output");
  dim = at::maybe_wrap_dim(dim, self.dim());
  const DimVector sizes = self.numel() == 0
                              ? DimVector(at::native::get_zero_numel_tensor_size(self, dim, keepdim, "mode()"))
                              : reduced_sizes(self, dim, keepdim);
  at::native::resize_output(values, sizes);
  at::native::resize_output(indices, sizes);
  at::assert_no_overlap(self, values);
  at::assert_no_internal_overlap(values);
  at::assert_no_internal_overlap(indices);
  launch_rows(kernel, values, indices, self, 1, ModeParameters{.dim = dim});
  return {values, indices};
}

// The order of random keys. 64-bit keys of n elements collide with a probability of n^2 / 2^65.
Tensor& randperm_out(int64_t n, std::optional<Generator> generator, Tensor& result) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::scalar_tensor(n > 0 ? n - 1 : 0, result.options().device(at::kCPU));  // raises where the dtype lacks a value
  at::native::check_supported_max_int_with_precision(n, result);
  result.resize_({n});
  if (n == 0) return result;
  Tensor keys = empty_like_dtype(result, {n}, at::kLong);
  keys.random_(std::numeric_limits<int64_t>::min(), std::nullopt, std::move(generator));
  const bool direct = result.scalar_type() == at::kLong;
  Tensor order = direct ? result : empty_like_dtype(result, {n}, at::kLong);
  launch_rows(kSort, Tensor(), order, keys, n, SortParameters{.dim = 0});
  return direct ? result : result.copy_(order);
}

}  // namespace atalla::aten
