// SPDX-License-Identifier: BSD-3-Clause
//
// CSR @ dense with another reduction than a sum: the mean, largest or smallest product of each row's elements.
#include "aten/kernels/sparse/compressed.h"

namespace atalla::aten {

namespace {

// Elements of a CSR matrix [m, k] in order of their rows.
struct Elements {
  explicit Elements(const Tensor& csr)
      : ends(csr.crow_indices().to(at::kLong)),
        columns(csr.col_indices().to(at::kLong)),
        rows(compressed_places(ends, columns.size(0))),
        values(csr.values()) {}
  Tensor per_row() const { return ends.diff().clamp_min(1); }
  Tensor ends, columns, rows, values;
};

// `source` [nnz, n] reduced into rows, which hold `initial` where they have no element.
Tensor reduce_rows(const Tensor& rows, const Tensor& source, int64_t count, double initial, std::string_view reduce) {
  const Tensor start = at::full({count, source.size(1)}, initial, source.options());
  return start.scatter_reduce(0, rows.unsqueeze(1).expand(source.sizes()), source, reduce, /*include_self=*/true);
}

bool is_extreme(std::string_view reduce) { return reduce == "amax" || reduce == "amin"; }

void check_factors(const Tensor& self, const Tensor& other, std::string_view reduce) {
  TORCH_CHECK(self.layout() == at::kSparseCsr, "sparse_mm_reduce: expect self to be SparseCsr, got ", self.layout());
  TORCH_CHECK(self.dense_dim() == 0, "sparse_mm_reduce: expected non-hybrid self tensor.");
  TORCH_CHECK(self.dim() == 2, "sparse_mm_reduce: expected self to be a 2-D tensor, got ", self.dim(), "-D");
  TORCH_CHECK(other.dim() == 2 && other.size(0) == self.size(1),
              "Expected a tensor of dimension 2 and tensor.size[0] == ", self.size(1), " but got: dimension ",
              other.dim(), " and tensor.size[0] = ", other.size(0));
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected tensor for argument #1 'other' to have scalar type ",
              self.scalar_type(), "; but got ", other.scalar_type(),
              " (while checking arguments for sparse_mm_reduce)");
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "\"spmm_reduce_kernel\" not implemented for '",
                              self.scalar_type(), "'");
  TORCH_CHECK(reduce == "sum" || reduce == "mean" || is_extreme(reduce),
              "reduce argument must be either sum, mean, amax or amin, got ", reduce);
}

// self^T with other values, times `dense`.
Tensor transposed_product(const Elements& e, const Tensor& values, const Tensor& dense, int64_t columns) {
  const Tensor terms = widened(values).unsqueeze(1).mul(widened(dense.index_select(0, e.rows)));
  return at::zeros({columns, dense.size(1)}, terms.options()).index_add_(0, e.columns, terms).to(dense.scalar_type());
}

}  // namespace

// Of equal products the first counts, whose position among the elements is the second result (nnz: no element). It is
// computed only if a gradient needs it, as on the CPU.
std::tuple<Tensor, Tensor> sparse_mm_reduce(const Tensor& self, const Tensor& other, std::string_view reduce) {
  check_factors(self, other, reduce);
  const Elements e(self);
  const int64_t elements = e.values.size(0), rows = self.size(0);
  Tensor places = at::empty({0}, e.columns.options());
  if (!is_extreme(reduce)) {
    Tensor sums = weighted_rows(e.ends, e.rows, e.columns, widened(e.values).contiguous(), widened(other));
    if (reduce == "mean") sums = sums.div(e.per_row().unsqueeze(1));
    return {sums.to(self.scalar_type()), places};
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor products = widened(e.values).unsqueeze(1).mul(widened(other.index_select(0, e.columns)));
  Tensor found = reduce_rows(e.rows, products, rows, reduce == "amax" ? -infinity : infinity, reduce);
  if (at::GradMode::is_enabled() && (self.requires_grad() || other.requires_grad())) {
    const Tensor chosen = found.index_select(0, e.rows);
    const Tensor equal = products.eq(chosen).logical_or(products.isnan());
    const Tensor numbers = at::arange(elements, e.columns.options()).unsqueeze(1);
    places = reduce_rows(e.rows, at::where(equal, numbers, elements), rows, static_cast<double>(elements), "amin");
  }
  found = found.masked_fill(e.ends.diff().eq(0).unsqueeze(1), 0);
  return {found.to(self.scalar_type()), places};
}

std::tuple<Tensor, Tensor> sparse_mm_reduce_backward(const Tensor& self, const Tensor& grad_out, const Tensor& weight,
                                                     std::string_view reduce, const Tensor& arg_out,
                                                     std::array<bool, 2> output_mask) {
  check_factors(self, weight, reduce);
  const Elements e(self);
  const int64_t elements = e.values.size(0);
  Tensor by_values, by_weight;
  if (!is_extreme(reduce)) {
    const Tensor grad = reduce == "mean" ? widened(grad_out).div(e.per_row().unsqueeze(1)) : widened(grad_out);
    if (output_mask[0]) by_values = grad.index_select(0, e.rows).mul(widened(weight.index_select(0, e.columns))).sum(1);
    if (output_mask[1]) by_weight = transposed_product(e, e.values, grad, weight.size(0));
  } else {
    // One more element takes what belongs to rows without one.
    const Tensor place = arg_out.reshape({-1}), n = at::arange(weight.size(1), place.options());
    const Tensor is_element = place.lt(elements);
    const Tensor safe = place.clamp_max(std::max<int64_t>(elements - 1, 0));
    const Tensor lane = n.unsqueeze(0).expand(arg_out.sizes()).reshape({-1});
    const Tensor column = elements > 0 ? e.columns.index_select(0, safe) : at::zeros_like(place);
    const Tensor at_column = column.mul(weight.size(1)).add(lane);
    const Tensor grad = widened(grad_out).reshape({-1}).mul(is_element);
    if (output_mask[0]) {
      const Tensor terms = grad.mul(widened(weight).reshape({-1}).index_select(0, at_column));
      by_values = at::zeros({elements + 1}, terms.options()).index_add_(0, place, terms).narrow(0, 0, elements);
    }
    if (output_mask[1]) {
      const Tensor value = elements > 0 ? widened(e.values).index_select(0, safe) : at::zeros_like(grad);
      by_weight = at::zeros({weight.numel()}, grad.options()).index_add_(0, at_column, grad.mul(value));
      by_weight = by_weight.view(weight.sizes());
    }
  }
  const ScalarType dtype = self.scalar_type();
  Tensor grad_self;
  if (output_mask[0])
    grad_self = at::_sparse_csr_tensor_unsafe(self.crow_indices(), self.col_indices(), by_values.to(dtype),
                                              self.sizes(), self.options());
  return {grad_self, output_mask[1] ? by_weight.to(dtype) : by_weight};
}

}  // namespace atalla::aten
