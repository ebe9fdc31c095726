// SPDX-License-Identifier: BSD-3-Clause
#include "aten/kernels/sparse/coo.h"

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
  static const Kernel kEmbeddingBag("embedding_bag");
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

}  // namespace atalla::aten
