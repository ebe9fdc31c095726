// SPDX-License-Identifier: BSD-3-Clause
//
// spdiags: a sparse matrix of given diagonals.
#include "aten/kernels/sparse/coo.h"

namespace atalla::aten {

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

}  // namespace atalla::aten
