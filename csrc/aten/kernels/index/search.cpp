// SPDX-License-Identifier: BSD-3-Clause
//
// searchsorted, bucketize and isin, whose operands are brought to one dtype first, as upstream does. unique: an order
// in which equal elements stand together, the number of runs, which is read to size the results, and the results.
#include <ATen/native/BucketizationUtils.h>

#include "aten/kernels/adaptor.h"
#include "aten/launch/launch_recorder.h"

namespace atalla::aten {

Tensor& searchsorted_out(const Kernel& kernel, const Tensor& sorted_sequence, const Tensor& self, bool out_int32,
                         bool right, std::optional<std::string_view> side, const Tensor& sorter, Tensor& out) {
  at::native::searchsorted_pre_check(sorted_sequence, self, out, out_int32, right, side,
                                     may_check_elements() ? sorter : Tensor());
  at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return out;
  Tensor rows = sorted_sequence, values = self;
  if (rows.scalar_type() != values.scalar_type()) {
    at::native::ResultTypeState state = {};
    state = at::native::update_result_type_state(rows, state);
    state = at::native::update_result_type_state(values, state);
    const ScalarType common = at::native::result_type(state);
    rows = rows.to(common);
    values = values.to(common);
  }
  launch(kernel, values.scalar_type(), {out}, {rows, values, sorter},
         SearchsortedParameters{.right = side.has_value() ? *side == "right" : right});
  return out;
}

Tensor& searchsorted_scalar_out(const Kernel& kernel, const Tensor& sorted_sequence, const Scalar& self, bool out_int32,
                                bool right, std::optional<std::string_view> side, const Tensor& sorter, Tensor& out) {
  const Tensor value = at::native::searchsorted_scalar_tensor(self, sorted_sequence.device());
  return searchsorted_out(kernel, sorted_sequence, value, out_int32, right, side, sorter, out);
}

Tensor& bucketize_out(const Kernel& kernel, const Tensor& self, const Tensor& boundaries, bool out_int32, bool right,
                      Tensor& out) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
  return searchsorted_out(kernel, boundaries, self, out_int32, right, std::nullopt, Tensor(), out);
}

Tensor& bucketize_scalar_out(const Kernel& kernel, const Scalar& self, const Tensor& boundaries, bool out_int32,
                             bool right, Tensor& out) {
  const Tensor value = at::native::searchsorted_scalar_tensor(self, boundaries.device());
  return bucketize_out(kernel, value, boundaries, out_int32, right, out);
}

void isin(const Kernel& kernel, const Tensor& elements, const Tensor& test_elements, bool invert, const Tensor& out) {
  if (out.numel() == 0) return;
  const ScalarType common = at::result_type(elements, test_elements);
  const Tensor x = elements.to(common), list = test_elements.to(common).reshape(-1);
  launch(kernel, common, {out}, {x, list}, IsinParameters{.invert = invert});
}

void isin_scalar(const Tensor& elements, const Scalar& test_element, bool assume_unique, bool invert,
                 const Tensor& out) {
  Tensor result = out;
  if (invert) at::ne_out(result, elements, test_element);
  else at::eq_out(result, elements, test_element);
}

// The meta gives the result no size yet: it is the scalar's.
void scalar_isin(const Kernel& kernel, const Scalar& element, const Tensor& test_elements, bool invert,
                 const Tensor& out) {
  at::native::resize_output(out, {});
  isin(kernel, at::scalar_tensor(element, test_elements.options()), test_elements, invert, out);
}

namespace {

using Three = std::tuple<Tensor, Tensor, Tensor>;

// Distinct elements or rows of a non-empty x [n] or [n, k], in `order` (undefined: in their own order). An inverse or
// counts that are not asked for are empty.
Three distinct(const Tensor& x, const Tensor& order, bool return_inverse, bool return_counts) {
  const int64_t n = x.size(0);
  Tensor ranks = empty_like_dtype(x, {n}, at::kLong), total = empty_like_dtype(x, {1}, at::kLong);
  launch(kUniqueCount, x.scalar_type(), {ranks, total}, {x, order});
  DimVector sizes(x.sizes());
  sizes[0] = total.item<int64_t>();
  Tensor values = empty_like_dtype(x, sizes, x.scalar_type());
  Tensor inverse = empty_like_dtype(x, {return_inverse ? n : 0}, at::kLong);
  Tensor counts = empty_like_dtype(x, {return_counts ? sizes[0] : 0}, at::kLong);
  const Tensor none;
  launch(kUniqueWrite, x.scalar_type(), {values, return_inverse ? inverse : none, return_counts ? counts : none},
         {x, ranks, order});
  return {values, inverse, counts};
}

Three empty_result(const Tensor& self, IntArrayRef sizes, IntArrayRef inverse_sizes) {
  return {empty_like_dtype(self, sizes, self.scalar_type()), empty_like_dtype(self, inverse_sizes, at::kLong),
          empty_like_dtype(self, {0}, at::kLong)};
}

}  // namespace

Three unique_elements(const Tensor& self, bool sort, bool return_inverse, bool return_counts) {
  if (self.numel() == 0) {
    return empty_result(self, {0}, return_inverse ? self.sizes() : IntArrayRef({0}));
  }
  const Tensor x = self.contiguous().view(-1);
  Tensor order;
  if (sort) {
    order = empty_like_dtype(x, x.sizes(), at::kLong);
    launch(kSort, x.scalar_type(), {Tensor(), order}, {x}, SortParameters{.dim = 0});
  }
  auto [values, inverse, counts] = distinct(x, order, return_inverse, return_counts);
  if (return_inverse) inverse = inverse.view(self.sizes());
  return {values, inverse, counts};
}

Three unique_slices(const Tensor& self, int64_t dim, bool sort) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const auto zero_dims = std::count(self.sizes().begin(), self.sizes().end(), 0);
  if (self.dim() > 0 && self.size(dim) == 0) {
    TORCH_CHECK(zero_dims == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    return empty_result(self, self.sizes(), {0});
  }
  TORCH_CHECK(zero_dims == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const Tensor moved = self.dim() > 0 ? self.moveaxis(dim, 0) : self.unsqueeze(0);
  const Tensor x = moved.contiguous().view({moved.size(0), -1});
  Tensor order;
  if (sort) {
    order = empty_like_dtype(x, {x.size(0)}, at::kLong);
    launch(kSortRows, x.scalar_type(), {order}, {x});
  }
  auto [values, inverse, counts] = distinct(x, order, true, true);
  DimVector sizes(moved.sizes());
  sizes[0] = values.size(0);
  return {values.view(sizes).moveaxis(0, self.dim() > 0 ? dim : 0), inverse, counts};
}

std::tuple<Tensor, Tensor> unique(const Tensor& self, bool sorted, bool return_inverse) {
  auto [values, inverse, counts] = unique_elements(self, true, return_inverse, false);
  return {values, inverse};
}

Three unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  if (dim.has_value() && !(*dim == 0 && self.dim() == 1)) return unique_slices(self, *dim, false);
  return unique_elements(self, false, return_inverse, return_counts);
}

}  // namespace atalla::aten
