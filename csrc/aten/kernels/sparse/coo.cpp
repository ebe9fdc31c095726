// SPDX-License-Identifier: BSD-3-Clause
//
// COO tensors from places and values, by slices and diagonals; softmax, where places without an element count as -inf,
// the gradient of sums, and norms.
#include "aten/kernels/sparse/coo.h"

#include "aten/kernels/index/scatter.h"

namespace atalla::aten {

Tensor flat_places(const Tensor& indices, IntArrayRef sizes) {
  if (sizes.empty()) return at::zeros({indices.size(1)}, indices.options());
  Tensor flat = indices.select(0, 0);
  for (size_t d = 1; d < sizes.size(); ++d) flat = at::add(indices.select(0, static_cast<int64_t>(d)), flat, sizes[d]);
  return flat;
}

Tensor places_of(const Tensor& flat, IntArrayRef sizes) {
  if (sizes.empty()) return at::empty({0, flat.size(0)}, flat.options());
  std::vector<Tensor> places(sizes.size());
  Tensor rest = flat;
  for (size_t d = sizes.size(); d-- > 1;) {
    const int64_t size = std::max<int64_t>(sizes[d], 1);
    places[d] = rest.remainder(size);
    rest = rest.div(size, "floor");
  }
  places[0] = rest;
  return at::stack(places);
}

Tensor make_coo(const Tensor& indices, const Tensor& values, IntArrayRef sizes, bool coalesced) {
  const int64_t sparse_dim = indices.size(0);
  return at::_sparse_coo_tensor_with_dims_and_tensors(sparse_dim, static_cast<int64_t>(sizes.size()) - sparse_dim,
                                                      sizes, indices, values, values.options().layout(at::kSparse),
                                                      coalesced);
}

Tensor& set_coo(Tensor& out, const Tensor& indices, const Tensor& values, IntArrayRef sizes, bool coalesced) {
  auto* impl = static_cast<at::SparseTensorImpl*>(out.unsafeGetTensorImpl());
  const int64_t sparse_dim = indices.size(0);
  impl->raw_resize_(sparse_dim, static_cast<int64_t>(sizes.size()) - sparse_dim, sizes);
  impl->set_indices_and_values_unsafe(indices, values.to(out.scalar_type()));
  return out._coalesced_(coalesced);
}

Groups group(const Tensor& flat) {
  const auto [distinct, position] = at::_unique(flat, /*sorted=*/true, /*return_inverse=*/true);
  return {distinct, position};
}

Tensor sum_by_group(const Tensor& values, const Tensor& position, int64_t groups) {
  DimVector sizes(values.sizes());
  sizes[0] = groups;
  const ScalarType dtype = values.scalar_type();
  const bool is_bool = dtype == at::kBool;  // any
  const ScalarType wide = is_bool ? at::kByte : at::isReducedFloatingType(dtype) ? at::kFloat : dtype;
  Tensor sums = at::zeros(sizes, values.options().dtype(wide));
  sums.index_add_(0, position, values.to(wide));
  return is_bool ? sums.ne(0) : sums.to(dtype);  // rounded once
}

Matches look_up(const Tensor& sorted, const Tensor& wanted) {
  if (sorted.size(0) == 0)
    return {at::zeros_like(wanted), at::zeros(wanted.sizes(), wanted.options().dtype(at::kBool))};
  const Tensor position = at::searchsorted(sorted, wanted).clamp_max(sorted.size(0) - 1);
  return {position, sorted.index_select(0, position).eq(wanted)};
}

Ranges expand_ranges(const Tensor& starts, const Tensor& counts) {
  const Tensor range = at::repeat_interleave(counts);
  const Tensor before = counts.cumsum(0).sub(counts);  // elements of earlier ranges
  const Tensor shift = starts.sub(before).index_select(0, range);
  return {range, at::arange(range.size(0), range.options()).add(shift)};
}

Tensor beside_values(const Tensor& per_element, const Tensor& values) {
  DimVector sizes(values.dim(), 1);
  sizes[0] = per_element.size(0);
  return per_element.view(sizes);
}

Tensor weighted_rows(const Tensor& ends, const Tensor& rows, const Tensor& columns, const Tensor& values,
                     const Tensor& table) {
  const ScalarType dtype = table.scalar_type();
  const int64_t m = ends.size(0) - 1;
  if (values.numel() == 0 || table.numel() == 0) return at::zeros({m, table.size(1)}, table.options());
  if (!at::isFloatingType(dtype)) {
    Tensor out = at::zeros({m, table.size(1)}, table.options());
    return out.index_add_(0, rows, table.index_select(0, columns).mul(values.unsqueeze(1)));
  }
  Tensor out = empty_like_dtype(table, {m, table.size(1)}, dtype);
  const Tensor none;
  launch(kEmbeddingBag, dtype, {out, none, none, none}, {table.contiguous(), columns, ends, values},
         EmbeddingBagParameters{.mode = static_cast<BagMode>(0), .padding_index = -1, .has_end = true});
  return out;
}

Tensor scaled_sum(const Tensor& self, const Tensor& product, const Scalar& beta, const Scalar& alpha) {
  const bool keeps = alpha.isFloatingPoint() || alpha.isComplex() ? alpha.toComplexDouble() == 1. : alpha.toLong() == 1;
  if (beta.toComplexDouble() == 0.) return keeps ? product : product.mul(alpha);
  return at::add(beta.toComplexDouble() == 1. ? self : self.mul(beta), product, alpha);
}

Tensor index_select_coo(const Tensor& self, int64_t dim, const Tensor& index_given) {
  TORCH_CHECK_INDEX(self.dim() > 0, "index_select() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK_INDEX(index_given.dim() == 1 && index_given.layout() == at::kStrided &&
                        at::isIntegralType(index_given.scalar_type(), false),
                    "index_select() argument index must be 1-D strided (non-sparse) integer tensor.");
  dim = at::maybe_wrap_dim(dim, self.dim());
  DimVector sizes(self.sizes());
  sizes[dim] = index_given.size(0);
  if (dim >= self.sparse_dim()) {
    const Tensor values = self._values().index_select(dim - self.sparse_dim() + 1, index_given);
    return make_coo(self._indices().clone(), values, sizes, self.is_coalesced());
  }
  const int64_t size = self.size(dim);
  Tensor index = index_given.to(at::kLong);
  if (index.numel() > 0) {
    const auto [least, largest] = at::aminmax(index);
    TORCH_CHECK_INDEX(least.item<int64_t>() >= -size && largest.item<int64_t>() < size,
                      "index_select(): index contains ", least.item<int64_t>(), " to ", largest.item<int64_t>(),
                      " that is out of range for tensor of size ", self.sizes(), " at dimension ", dim);
    index = at::where(index.lt(0), index.add(size), index);
  }
  // For each asked slice the elements that are in it: a range of the elements sorted by their place in `dim`.
  const auto [sorted, order] = self._indices().select(0, dim).sort(/*stable=*/true, 0, false);
  const Tensor starts = at::searchsorted(sorted, index);
  const Tensor counts = at::searchsorted(sorted, index, false, /*right=*/true).sub(starts);
  const auto [slice, place] = expand_ranges(starts, counts);
  const Tensor element = order.index_select(0, place);
  Tensor indices = self._indices().index_select(1, element);
  indices.select(0, dim).copy_(slice);
  // The elements are in order of `dim` first, and then as they were.
  return make_coo(indices, self._values().index_select(0, element), sizes, self.is_coalesced() && dim == 0);
}

// diagonals [k, n] or [n], offsets [k] or []: element j of diagonal d is in column j and row j - offsets[d].
Tensor spdiags(const Tensor& diagonals, const Tensor& offsets, IntArrayRef shape, std::optional<at::Layout> layout) {
  TORCH_CHECK(diagonals.dim() == 1 || diagonals.dim() == 2, "Diagonals must be vector or matrix");
  TORCH_CHECK(shape.size() == 2, "Output shape must be 2d");
  TORCH_CHECK(offsets.dim() <= 1, "Offsets must be scalar or vector");
  const Tensor values = diagonals.dim() == 1 ? diagonals.unsqueeze(0) : diagonals;
  const Tensor offset = offsets.reshape({-1, 1});
  TORCH_CHECK(values.size(0) == offset.size(0), "Number of diagonals (", values.size(0),
              ") does not match the number of offsets (", offset.size(0), ")");
  const at::Layout made = layout.value_or(at::kSparse);
  TORCH_CHECK(made == at::kSparse || made == at::kSparseCsr || made == at::kSparseCsc,
              "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got ", made);
  TORCH_CHECK(offset.scalar_type() == at::kLong, "Offset Tensor must have dtype Long but got ", offset.scalar_type());
  TORCH_CHECK(std::get<0>(at::_unique(offset)).numel() == offset.numel(), "Offset tensor contains duplicate values");
  const int64_t rows = shape[0], columns = std::min(shape[1], values.size(1));
  const Tensor column = at::arange(columns, offset.options()).expand({offset.size(0), columns});
  const Tensor row = column.sub(offset);
  const Tensor inside = row.ge(0).logical_and(row.lt(rows));
  const Tensor indices = at::stack({row.masked_select(inside), column.masked_select(inside)});
  const Tensor elements = values.narrow(1, 0, columns).masked_select(inside);
  const Tensor coo = make_coo(indices, elements, shape, false);
  return made == at::kSparse ? coo : coo.to_sparse(made);
}

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
