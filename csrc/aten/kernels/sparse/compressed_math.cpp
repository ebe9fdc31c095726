// SPDX-License-Identifier: BSD-3-Clause
//
// Sums, products and reductions of compressed tensors (CSR, CSC).
#include <ATen/SparseCsrTensorUtils.h>

#include "aten/kernels/index/scatter.h"
#include "aten/kernels/sparse/compressed.h"

namespace atalla::aten {

namespace {

bool is_compressed(const Tensor& t) { return at::sparse_csr::is_sparse_compressed(t); }

void check_layout(const char* op, const Tensor& t) {
  TORCH_CHECK(t.layout() == at::kStrided || is_compressed(t), op,
              ": expected layouts torch.strided, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr or "
              "torch.sparse_bsc, got ",
              t.layout(), "; convert with to_sparse_csr() or with to_dense()");
}

// A matrix by its elements: blocks have no product of their own.
Tensor to_csr(const Tensor& compressed) {
  if (compressed.layout() == at::kSparseCsr) return compressed;
  return compressed.layout() == at::kSparseCsc ? compressed.to_sparse_csr() : compressed.to_sparse().to_sparse_csr();
}

// sparse [m, k] @ dense [k, n].
Tensor csr_product(const Tensor& sparse, const Tensor& dense) {
  const Tensor csr = to_csr(sparse);
  const Tensor columns = csr.col_indices().contiguous(), ends = csr.crow_indices().contiguous();
  const Tensor rows =
      at::isFloatingType(dense.scalar_type()) && csr._nnz() > 0 ? Tensor() : compressed_places(ends, columns.size(0));
  return weighted_rows(ends, rows, columns, csr.values().contiguous(), dense);
}

Tensor any_csr_product(const Tensor& a, const Tensor& b) {
  if (!is_compressed(b)) return csr_product(a, b);
  if (!is_compressed(a)) return csr_product(b.transpose(0, 1), a.t()).t();
  return at::_sparse_sparse_matmul(a.to_sparse(), b.to_sparse());
}

// The batch that has the CSR matrix at each place.
Tensor repeated_csr(const Tensor& matrix, IntArrayRef batch) {
  if (batch.empty()) return matrix;
  const auto repeated = [&](const Tensor& t) {
    DimVector sizes(batch);
    sizes.push_back(t.size(0));
    return t.expand(sizes).contiguous();
  };
  DimVector sizes(batch);
  sizes.append(matrix.sizes().begin(), matrix.sizes().end());
  return at::_sparse_csr_tensor_unsafe(repeated(matrix.crow_indices()), repeated(matrix.col_indices()),
                                       repeated(matrix.values()), sizes, matrix.options());
}

void check_csr_matrices(const char* op, const Tensor& a, const Tensor& b) {
  check_layout(op, a);
  check_layout(op, b);
  TORCH_CHECK(a.dim() == 2, "mat1 must be a matrix, got ", a.dim(), "-D tensor");
  TORCH_CHECK(b.dim() == 2, "mat2 must be a matrix, got ", b.dim(), "-D tensor");
  TORCH_CHECK(a.size(1) == b.size(0), "mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
              b.size(0), "x", b.size(1), ")");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), op, ": expected factors of one dtype, got ", a.scalar_type(), " and ",
              b.scalar_type());
}

}  // namespace

Tensor& add_compressed_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  check_layout("add", self);
  check_layout("add", other);
  if (self.layout() == at::kStrided) return at::add_out(out, self, other.to_sparse(), alpha);
  if (other.layout() == at::kStrided) {
    const Tensor scaled = alpha.equal(1) ? other : other.mul(alpha);
    return at::add_out(out, scaled, self.to_sparse());
  }
  TORCH_CHECK(self.sizes() == other.sizes(),
              "torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape ",
              self.sizes(), " and tensor `other` with shape ", other.sizes());
  const Tensor sum = self.to_sparse().coalesce().add(other.to_sparse().coalesce(), alpha);
  return set_compressed(out, sum.coalesce());
}

Tensor& addmv_compressed_out(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta,
                             const Scalar& alpha, Tensor& out) {
  check_layout("addmv", mat);
  TORCH_CHECK(mat.dim() == 2, "addmv: Expected mat to be 2-D");
  TORCH_CHECK(vec.dim() == 1, "addmv: Expected vec to be 1-D");
  TORCH_CHECK(mat.size(1) == vec.size(0), "size mismatch, got input (", mat.size(0), "), mat (", mat.size(0), "x",
              mat.size(1), "), vec (", vec.size(0), ")");
  const Tensor found = csr_product(mat, vec.unsqueeze(1)).select(1, 0);
  return copy_result(scaled_sum(self.expand(found.sizes()), found, beta, alpha), out);
}

Tensor& addmm_compressed_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                             const Scalar& alpha, Tensor& out) {
  check_csr_matrices("addmm", mat1, mat2);
  const Tensor found = any_csr_product(mat1, mat2);
  if (out.layout() == at::kStrided) {
    TORCH_CHECK(self.layout() == at::kStrided, "addmm: expected a dense 'self' for a dense result, got layout ",
                self.layout());
    const Tensor dense = found.layout() == at::kStrided ? found : found.to_dense();
    return copy_result(scaled_sum(self.expand(dense.sizes()), dense, beta, alpha), out);
  }
  TORCH_CHECK(found.is_sparse(),
              "addmm: two factors of which one is dense have a dense product, but the result has layout ",
              out.layout());
  TORCH_CHECK(self.sizes() == found.sizes(), "addmm: expected a sparse 'self' of sizes ", found.sizes(), ", got ",
              self.sizes());
  Tensor sum = found.mul(alpha);
  if (beta.toComplexDouble() != 0.) sum = sum.add(self.to_sparse().coalesce().mul(beta));
  return set_compressed(out, sum.coalesce());
}

// beta * self + alpha * (mat1 @ mat2) where `self` has elements.
Tensor& sampled_addmm_out(const Tensor& given, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                          const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(given.layout() == at::kSparseCsr, "sampled_addmm: Expected self to be a sparse CSR tensor, got layout ",
              given.layout());
  TORCH_CHECK(mat1.layout() == at::kStrided && mat2.layout() == at::kStrided,
              "sampled_addmm: Expected mat1 and mat2 to have strided layout, but got layouts ", mat1.layout(), " and ",
              mat2.layout());
  TORCH_CHECK(given.scalar_type() == mat1.scalar_type() && mat1.scalar_type() == mat2.scalar_type(),
              "sampled_addmm: Expected one dtype, but got ", given.scalar_type(), ", ", mat1.scalar_type(), " and ",
              mat2.scalar_type());
  TORCH_CHECK(mat1.dim() >= 2 && mat2.dim() >= 2, "sampled_addmm: Expected mat1 and mat2 to be matrices, got a ",
              mat1.dim(), "-D and a ", mat2.dim(), "-D tensor");
  const auto batch_sizes = [](const Tensor& t) { return t.sizes().slice(0, t.dim() - 2); };
  const IntArrayRef batch = batch_sizes(mat1);
  TORCH_CHECK(batch == batch_sizes(mat2), "sampled_addmm: Expected mat1 and mat2 to have the same batch size, but got ",
              batch, " and ", batch_sizes(mat2));
  TORCH_CHECK(given.dim() == 2 || batch == batch_sizes(given),
              "sampled_addmm: Expected self and mat1 to have the same batch size, but got ", batch_sizes(given),
              " and ", batch);
  TORCH_CHECK(mat1.size(-1) == mat2.size(-2) && given.size(-2) == mat1.size(-2) && given.size(-1) == mat2.size(-1),
              "sampled_addmm: mat1 and mat2 shapes cannot be multiplied (", mat1.sizes(), " and ", mat2.sizes(),
              " sampled at ", given.sizes(), ")");
  const Tensor self = given.dim() == 2 ? repeated_csr(given, batch) : given;
  const Tensor indices = self.to_sparse()._indices();
  c10::List<std::optional<Tensor>> rows, columns;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != self.dim() - 1) rows.push_back(indices.select(0, d));
    if (d != self.dim() - 2) columns.push_back(indices.select(0, d));
  }
  const Tensor values = self.values();
  const Tensor products = mat1.index(rows).mul(mat2.transpose(-2, -1).index(columns)).sum(-1).view(values.sizes());
  const Tensor result =
      at::_sparse_csr_tensor_unsafe(self.crow_indices().clone(), self.col_indices().clone(),
                                    scaled_sum(values, products, beta, alpha), self.sizes(), self.options());
  return set_compressed(out, result);
}

Tensor sampled_addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                     const Scalar& alpha) {
  Tensor out = at::empty({0, 0}, self.options());
  return sampled_addmm_out(self, mat1, mat2, beta, alpha, out);
}

// The inverse of a triangle of A times self. M is a copy of A, which PyTorch leaves empty for this layout.
std::tuple<Tensor&, Tensor&> triangular_solve_compressed(const Tensor& self, const Tensor& A, bool upper,
                                                         bool transpose, bool unitriangular, Tensor& X, Tensor& M) {
  TORCH_CHECK(is_compressed(A) && self.layout() == at::kStrided && X.layout() == at::kStrided,
              "triangular_solve: expected a dense right-hand side and a compressed sparse matrix, got layouts ",
              self.layout(), " and ", A.layout());
  if (A._nnz() == 0) {  // singular: PyTorch's answer, also for a triangle of which the diagonal is taken as ones
    copy_result(at::full(self.sizes(), std::numeric_limits<double>::quiet_NaN(), self.options()), X);
    return std::tuple<Tensor&, Tensor&>(X, M);
  }
  const Tensor dense = transpose ? A.to_dense().transpose(-2, -1) : A.to_dense();
  const Tensor found =
      at::linalg_solve_triangular(dense, self, transpose ? !upper : upper, /*left=*/true, unitriangular);
  copy_result(found, X);
  return std::tuple<Tensor&, Tensor&>(X, M);
}

// Values of a CSR matrix reduced over rows, columns or both; dimensions of size 1 stay.
Tensor reduce_csr(const char* op, bool multiply, const Tensor& input, IntArrayRef dims, bool keepdim,
                  std::optional<ScalarType> dtype) {
  TORCH_CHECK(input.layout() == at::kSparseCsr && input.dim() == 2, op,
              ": expected a matrix of layout torch.sparse_csr, got ", input.layout(), " of ", input.dim(),
              " dimensions");
  TORCH_CHECK(keepdim, "reduction operations on CSR tensors with keepdim=False is unsupported");
  const std::bitset<64> reduced = at::dim_list_to_bitset(dims, 2);
  const ScalarType taken =
      dtype.value_or(at::isIntegralType(input.scalar_type(), true) ? at::kLong : input.scalar_type());
  const Tensor values = input.values().to(taken);
  if (!reduced[0] && !reduced[1]) return input.clone();
  const Tensor coo = input.to_sparse();
  const auto place = [&](int64_t d) {
    const Tensor index = coo._indices().select(0, d);
    return reduced[d] ? at::zeros_like(index) : index;
  };
  const DimVector sizes{reduced[0] ? std::min<int64_t>(1, input.size(0)) : input.size(0),
                        reduced[1] ? std::min<int64_t>(1, input.size(1)) : input.size(1)};
  const auto [distinct, position] = group(flat_places(at::stack({place(0), place(1)}), sizes));
  Tensor results;
  if (multiply) {
    results = at::ones({distinct.size(0)}, values.options());
    write_rows(results, 0, position, values, Combine::kMultiply, false);
  } else {
    results = sum_by_group(values, position, distinct.size(0));
  }
  const Tensor csr = make_coo(places_of(distinct, sizes), results, sizes, true).to_sparse_csr();
  const ScalarType index = input.crow_indices().scalar_type();
  return at::_sparse_csr_tensor_unsafe(csr.crow_indices().to(index), csr.col_indices().to(index), csr.values(), sizes,
                                       csr.options());
}

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
