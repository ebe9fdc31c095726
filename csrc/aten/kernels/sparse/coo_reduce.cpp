// SPDX-License-Identifier: BSD-3-Clause
//
// Softmax over a dimension of a COO tensor, where places without an element count as -inf, the gradient of sums, and
// the norm of a tensor.
#include "aten/kernels/index/scatter.h"
#include "aten/kernels/sparse/coo.h"

namespace atalla::aten {

namespace {

// The elements of a coalesced tensor that differ in the sparse dimension `dim` only form a group.
Groups slices(const Tensor& sparse, int64_t dim) {
  DimVector sizes;
  std::vector<Tensor> places;
  for (int64_t d = 0; d < sparse.sparse_dim(); ++d) {
    if (d == dim) continue;
    sizes.push_back(sparse.size(d));
    places.push_back(sparse._indices().select(0, d));
  }
  if (places.empty()) return group(at::zeros({sparse._nnz()}, sparse._indices().options()));
  return group(flat_places(at::stack(places), sizes));
}

Tensor with_values(const Tensor& sparse, const Tensor& values) {
  return make_coo(sparse._indices().clone(), values, sparse.sizes(), sparse.is_coalesced());
}

}  // namespace

Tensor sparse_softmax(bool logarithm, const Tensor& self, int64_t dim, bool half_to_float) {
  TORCH_CHECK(!half_to_float, "softmax of sparse tensors: half_to_float is not supported");
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Tensor x = self.coalesce();
  if (x._nnz() == 0 || x.numel() == 0) return with_values(x, x._values());
  if (dim >= x.sparse_dim()) {
    const int64_t within = dim - x.sparse_dim() + 1;
    return with_values(x, logarithm ? at::log_softmax(x._values(), within) : at::softmax(x._values(), within));
  }
  const auto [distinct, position] = slices(x, dim);
  DimVector sizes(x._values().sizes());
  sizes[0] = distinct.size(0);
  const Tensor largest = at::full(sizes, -std::numeric_limits<double>::infinity(), x._values().options());
  write_rows(largest, 0, position, x._values(), Combine::kMaximum, false);
  const Tensor shifted = x._values().sub(largest.index_select(0, position));
  const Tensor exponentials = shifted.exp();
  const Tensor sums = sum_by_group(exponentials, position, distinct.size(0)).index_select(0, position);
  return with_values(x, logarithm ? shifted.sub(sums.log()) : exponentials.div(sums));
}

Tensor sparse_softmax_backward(bool logarithm, const Tensor& grad_output, const Tensor& output, int64_t dim,
                               const Tensor&) {
  dim = at::maybe_wrap_dim(dim, output.dim());
  TORCH_CHECK(grad_output.sizes() == output.sizes(), "softmax of sparse tensors: expected a gradient of sizes ",
              output.sizes(), ", got ", grad_output.sizes());
  const Tensor out = output.coalesce(), values = out._values();
  if (out._nnz() == 0 || out.numel() == 0) return with_values(out, values);
  const Tensor grad = grad_output.sparse_mask(out)._values();
  if (dim >= out.sparse_dim()) {
    const int64_t within = dim - out.sparse_dim() + 1;
    const ScalarType dtype = values.scalar_type();
    return with_values(out, logarithm ? at::_log_softmax_backward_data(grad, values, within, dtype)
                                      : at::_softmax_backward_data(grad, values, within, dtype));
  }
  const auto [distinct, position] = slices(out, dim);
  const Tensor weighed = logarithm ? grad : values.mul(grad);
  const Tensor sums = sum_by_group(weighed, position, distinct.size(0)).index_select(0, position);
  return with_values(out, logarithm ? grad.sub(values.exp().mul(sums)) : values.mul(grad.sub(sums)));
}

// Each element of `self` gets the gradient of the sum that it is in, and 0 where that has none.
Tensor sparse_sum_backward(const Tensor& grad_given, const Tensor& given, IntArrayRef dims) {
  const Tensor self = given.coalesce();  // each place has the gradient once, as many values as it may have
  const std::bitset<64> summed = at::dim_list_to_bitset(dims, self.dim());
  const int64_t sparse_dim = self.sparse_dim();
  DimVector shape{self._nnz()};
  for (int64_t d = sparse_dim; d < self.dim(); ++d) shape.push_back(summed[d] ? 1 : self.size(d));
  std::vector<Tensor> places;
  DimVector sizes;
  for (int64_t d = 0; d < sparse_dim; ++d) {
    if (summed[d]) continue;
    places.push_back(self._indices().select(0, d));
    sizes.push_back(self.size(d));
  }
  Tensor values;
  if (places.empty()) {  // a dense gradient, of the dense dimensions that are left
    const Tensor grad = grad_given.is_sparse() ? grad_given.to_dense() : grad_given;
    shape[0] = 1;
    values = grad.reshape(shape).expand(self._values().sizes());
  } else {
    TORCH_CHECK(grad_given.is_sparse(), "_sparse_sum_backward: expected a sparse gradient, got a dense one");
    const Tensor grad = grad_given.coalesce();
    const auto [position, found] = look_up(flat_places(grad), flat_places(at::stack(places), sizes));
    if (grad._nnz() == 0) {
      values = at::zeros_like(self._values());
    } else {
      const Tensor picked = grad._values().index_select(0, position).reshape(shape);
      values = picked.masked_fill(beside_values(found.logical_not(), picked), 0).expand(self._values().sizes());
    }
  }
  return make_coo(self._indices().clone(), values.contiguous(), self.sizes(), given.is_coalesced());
}

// Of all elements: clip_grad_norm_ asks for it.
Tensor sparse_vector_norm(const Tensor& self, const Scalar& ord, OptionalIntArrayRef dim, bool keepdim,
                          std::optional<ScalarType> dtype) {
  const bool all = !dim.has_value() || dim->empty() || static_cast<int64_t>(dim->size()) == self.dim();
  TORCH_CHECK_NOT_IMPLEMENTED(all && !keepdim,
                              "linalg_vector_norm of a sparse tensor: expected a norm over all dimensions without "
                              "keepdim, got dim and keepdim; convert with to_dense()");
  TORCH_CHECK_NOT_IMPLEMENTED(ord.toDouble() >= 0, "linalg_vector_norm of a sparse tensor: expected ord >= 0, got ",
                              ord.toDouble(), "; convert with to_dense()");
  return at::linalg_vector_norm(self.coalesce()._values(), ord, at::OptionalIntArrayRef(), false, dtype);
}

}  // namespace atalla::aten
