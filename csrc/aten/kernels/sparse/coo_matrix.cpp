// SPDX-License-Identifier: BSD-3-Clause
//
// Products of sparse matrices (COO) with dense and with sparse ones.
#include "aten/kernels/sparse/coo.h"

namespace atalla::aten {

namespace {

// Where each row begins in sorted `rows`: [count + 1].
Tensor row_ends(const Tensor& rows, int64_t count) {
  return at::searchsorted(rows, at::arange(count + 1, rows.options()));
}

// sparse [m, k] @ dense [k, n].
Tensor product(const Tensor& sparse, const Tensor& dense) {
  const ScalarType common = at::promote_types(sparse.scalar_type(), dense.scalar_type());
  const Tensor a = sparse.coalesce();
  const Tensor rows = a._indices().select(0, 0), columns = a._indices().select(0, 1);
  return weighted_rows(row_ends(rows, a.size(0)), rows, columns.contiguous(), a._values().to(common), dense.to(common));
}

void check_matrices(const char* op, const Tensor& sparse, const Tensor& dense) {
  TORCH_CHECK(sparse.sparse_dim() == 2, op, ": matrices expected, got ", sparse.sparse_dim(), "D tensor");
  TORCH_CHECK(sparse.dense_dim() == 0, op, ": scalar values expected, got ", sparse.dense_dim(), "D values");
  TORCH_CHECK(dense.dim() == 2, op, ": matrices expected, got ", dense.dim(), "D tensor");
  TORCH_CHECK(sparse.size(1) == dense.size(0), op, ": Argument #3 (dense): Expected dim 0 size ", sparse.size(1),
              ", got ", dense.size(0));
}

// A dense factor on the left: (sparse' @ dense')'.
Tensor any_product(const char* op, const Tensor& a, const Tensor& b) {
  if (a.is_sparse() && b.is_sparse()) return at::_sparse_sparse_matmul(a, b).to_dense();
  if (a.is_sparse()) {
    check_matrices(op, a, b);
    return product(a, b);
  }
  check_matrices(op, b.t(), a.t());
  return product(b.t(), a.t()).t();
}

}  // namespace

Tensor addmm_coo(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  TORCH_CHECK(!self.is_sparse(), "addmm: expected a dense 'self', got layout ", self.layout());
  const Tensor found = any_product("addmm", mat1, mat2);
  return scaled_sum(self.expand(found.sizes()), found, beta, alpha);
}

Tensor& addmm_coo_(Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  return self.copy_(aten::addmm_coo(self, mat1, mat2, beta, alpha));
}

Tensor bmm_coo(const Tensor& sparse, const Tensor& dense) {
  TORCH_CHECK(sparse.sparse_dim() == 3 && sparse.dense_dim() == 0,
              "bmm_sparse: expected a sparse tensor of three sparse dimensions, got ", sparse.sparse_dim(),
              " sparse and ", sparse.dense_dim(), " dense ones");
  TORCH_CHECK(!dense.is_sparse(), "bmm_sparse: Tensor 'mat2' must be dense");
  TORCH_CHECK(dense.dim() == 3, "bmm_sparse: Tensor 'mat2' must have 3 dims, but has ", dense.dim());
  TORCH_CHECK(sparse.size(0) == dense.size(0), "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
  TORCH_CHECK(sparse.size(2) == dense.size(1), "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
  const int64_t batches = sparse.size(0), m = sparse.size(1), k = sparse.size(2), n = dense.size(2);
  const Tensor a = sparse.coalesce(), batch = a._indices().select(0, 0);
  const Tensor rows = at::add(a._indices().select(0, 1), batch, m);
  const Tensor columns = at::add(a._indices().select(0, 2), batch, k);
  return weighted_rows(row_ends(rows, batches * m), rows, columns, a._values(), dense.reshape({batches * k, n}))
      .view({batches, m, n});
}

// The rows that have elements, as one sparse dimension, with dense rows.
Tensor hspmm(const Tensor& mat1, const Tensor& mat2) {
  check_matrices("hspmm", mat1, mat2);
  const Tensor a = mat1.coalesce();
  const auto [distinct, position] = group(a._indices().select(0, 0));
  const Tensor values = weighted_rows(row_ends(position, distinct.size(0)), position,
                                      a._indices().select(0, 1).contiguous(), a._values(), mat2);
  return make_coo(distinct.unsqueeze(0), values, {mat1.size(0), mat2.size(1)}, true);
}

Tensor& hspmm_out(const Tensor& mat1, const Tensor& mat2, Tensor& out) {
  const Tensor found = aten::hspmm(mat1, mat2);
  return set_coo(out, found._indices(), found._values(), found.sizes(), true);
}

// beta * self + alpha * mat1 @ mat2: the elements of `self`, and all those of the rows that `mat1` has, not coalesced.
Tensor& sspaddmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                     const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(self.is_sparse(), "sspaddmm: expected 'self' to have sparse layout, got 'self' with layout ",
              self.layout());
  TORCH_CHECK(mat1.is_sparse(), "sspaddmm: expected 'mat1' to have sparse layout, got 'mat1' with layout ",
              mat1.layout());
  TORCH_CHECK(mat2.layout() == at::kStrided,
              "sspaddmm: expected 'mat2' to have strided layout, got 'mat2' with layout ", mat2.layout());
  check_matrices("sspaddmm", mat1, mat2);
  const Tensor rows = aten::hspmm(mat1, mat2);
  TORCH_CHECK(self.sizes() == rows.sizes() && self.dense_dim() == 0, "sspaddmm: Argument #1: Expected sizes ",
              rows.sizes(), ", got ", self.sizes());
  const Tensor row = rows._indices().select(0, 0).unsqueeze(1), values = rows._values();
  const Tensor column = at::arange(values.size(1), row.options()).unsqueeze(0);
  const Tensor places =
      at::stack({row.expand(values.sizes()).reshape({-1}), column.expand(values.sizes()).reshape({-1})});
  const Tensor a = self.coalesce();
  return set_coo(out, at::cat({a._indices(), places}, 1),
                 at::cat({a._values().mul(beta), values.reshape({-1}).mul(alpha)}), self.sizes(), false);
}

// Each element of `self` meets the elements of one row of `other`.
Tensor sparse_sparse_matmul(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.dim() == 2 && other.dim() == 2 && self.dense_dim() == 0 && other.dense_dim() == 0,
              "sparse matmul: expected matrices of scalar values, got sizes ", self.sizes(), " and ", other.sizes());
  TORCH_CHECK(self.size(1) == other.size(0), "mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", other.size(0), "x", other.size(1), ")");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "mat1 dtype ", self.scalar_type(),
              " does not match mat2 dtype ", other.scalar_type());
  const Tensor a = self.coalesce(), b = other.coalesce();
  const Tensor ends = row_ends(b._indices().select(0, 0), b.size(0));
  const Tensor columns = a._indices().select(0, 1);
  const Tensor starts = ends.index_select(0, columns);
  const auto [element, met] = expand_ranges(starts, ends.index_select(0, columns.add(1)).sub(starts));
  const Tensor places =
      at::stack({a._indices().select(0, 0).index_select(0, element), b._indices().select(0, 1).index_select(0, met)});
  const Tensor values = a._values().index_select(0, element).mul(b._values().index_select(0, met));
  return make_coo(places, values, {self.size(0), other.size(1)}, false).coalesce();
}

}  // namespace atalla::aten
