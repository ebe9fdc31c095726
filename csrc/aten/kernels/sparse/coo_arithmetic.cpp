// SPDX-License-Identifier: BSD-3-Clause
//
// coalesce, sums and products of COO tensors, also with dense ones, and the projections that sparse_mask asks for.
#include <ATen/native/DispatchStub.h>

#include "aten/kernels/sparse/coo.h"

// Declared in a header of PyTorch's that is not installed.
namespace at::native {
using sparse_mask_fn = void (*)(Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&);
using flatten_indices_fn = Tensor (*)(const Tensor&, IntArrayRef);
DECLARE_DISPATCH(flatten_indices_fn, flatten_indices_stub)
using sparse_mask_counted_fn = void (*)(Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&, bool);
DECLARE_DISPATCH(sparse_mask_fn, sparse_mask_intersection_out_stub)
DECLARE_DISPATCH(sparse_mask_counted_fn, sparse_mask_projection_out_stub)
}  // namespace at::native

namespace atalla::aten {

namespace {

void check_castable(ScalarType common, const Tensor& out, const char* op) {
  TORCH_CHECK(canCast(common, out.scalar_type()), "Can't convert result type ", common, " to output ",
              out.scalar_type(), " in ", op, " operation");
}

Tensor& add_dense(const Tensor& dense, const Tensor& sparse, const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(!out.is_sparse(), "add: expected a dense out= for dense + sparse");
  TORCH_CHECK(dense.sizes() == sparse.sizes(), "add: expected 'self' and 'other' to have same size, but self has size ",
              dense.sizes(), " while other has size ", sparse.sizes(),
              " (FYI: dense-sparse addition does not currently support broadcasting)");
  const ScalarType common = at::promote_types(dense.scalar_type(), sparse.scalar_type());
  check_castable(common, out, "add");
  at::native::resize_output(out, dense.sizes());
  // In place where the dense tensor's memory is in order.
  const bool in_place = out.scalar_type() == common && out.is_contiguous();
  Tensor sum = in_place ? out : dense.to(common, false, true, MemoryFormat::Contiguous);
  if (in_place && !out.is_same(dense)) out.copy_(dense);
  if (sparse._nnz() > 0 && sparse.numel() > 0) {
    const int64_t sparse_dim = sparse.sparse_dim();
    DimVector sizes(sparse.sizes().slice(sparse_dim));
    sizes.insert(sizes.begin(), c10::multiply_integers(sparse.sizes().slice(0, sparse_dim)));
    const Tensor values = sparse._values().to(common);
    if (common == at::kBool) {
      const Tensor rows = sum.view(sizes).index_select(0, flat_places(sparse)).logical_or(values);
      sum.view(sizes).index_put_({flat_places(sparse)}, rows);
    } else {
      sum.view(sizes).index_add_(0, flat_places(sparse), values, alpha);
    }
  }
  return in_place ? out : out.copy_(sum);
}

// dense * sparse, broadcast: the places of the sparse one.
Tensor& mul_dense(const Tensor& dense, const Tensor& given, Tensor& out) {
  check_castable(at::result_type(dense, given), out, "mul");
  const auto sizes = at::infer_size(dense.sizes(), given.sizes());
  const bool broadcast = given.sizes() != IntArrayRef(sizes);
  const Tensor sparse = broadcast ? at::_sparse_broadcast_to(given.coalesce(), sizes).coalesce() : given;
  Tensor values = sparse._values();
  if (dense.dim() <= sparse.dense_dim()) {
    values = values.mul(dense);
  } else if (sparse._nnz() > 0) {
    c10::List<std::optional<Tensor>> places;
    for (const Tensor& place : sparse._indices().unbind(0)) places.push_back(place);
    values = values.mul(dense.expand(sizes).index(places));
  }
  const bool in_place = out.is_same(given);
  return set_coo(out, in_place ? sparse._indices() : sparse._indices().clone(), values, sizes, sparse.is_coalesced());
}

// The value of a 0-d COO tensor, dense.
Tensor scalar_value(const Tensor& sparse) {
  const Tensor values = sparse.coalesce()._values();
  return values.size(0) == 0 ? at::zeros({}, values.options()) : values.select(0, 0);
}

Tensor& mul_sparse(const Tensor& self, const Tensor& other, Tensor& out) {
  const int64_t sparse_dim = self.sparse_dim();
  TORCH_CHECK(sparse_dim == other.sparse_dim(),
              "mul(sparse, sparse): expected the same number of sparse dimensions, got ", sparse_dim, " and ",
              other.sparse_dim());
  const IntArrayRef sizes = self.sizes().slice(0, sparse_dim);
  TORCH_CHECK(
      sizes == other.sizes().slice(0, sparse_dim),
      "mul(sparse, sparse): expected the same sizes in the sparse dimensions (dense dimensions broadcast), got ",
      self.sizes(), " and ", other.sizes());
  check_castable(at::result_type(self, other), out, "mul");
  const Tensor a = self.coalesce(), b = other.coalesce();
  const auto [position, found] = look_up(flat_places(b), flat_places(a));
  const Tensor kept = found.nonzero().select(1, 0);
  const Tensor left = a._values().index_select(0, kept);
  const Tensor right = b._values().index_select(0, position.index_select(0, kept));
  const auto all = at::infer_size(self.sizes().slice(sparse_dim), other.sizes().slice(sparse_dim));
  const auto aligned = [&](const Tensor& values) {
    DimVector shape(values.sizes());
    while (shape.size() < all.size() + 1) shape.insert(shape.begin() + 1, 1);
    return values.view(shape);
  };
  DimVector result(sizes);
  result.append(all.begin(), all.end());
  return set_coo(out, a._indices().index_select(1, kept), aligned(left).mul(aligned(right)), result, true);
}

// The values of `x` at the places of `y`; x may name a place several times.
void mask_values(Tensor& out, const Tensor& x, const Tensor& y, const std::optional<Tensor>&) {
  const auto [distinct, position] = group(flat_places(x));
  const Tensor values = sum_by_group(x._values(), position, distinct.size(0));
  const auto [at, found] = look_up(distinct, flat_places(y));
  const Tensor picked = values.index_select(0, at);
  set_coo(out, y._indices().clone(), picked.masked_fill(beside_values(found.logical_not(), picked), 0), y.sizes(),
          false);
}

// The values of `y` where `x` has an element, times the number of these if they accumulate.
void project_values(Tensor& out, const Tensor& x, const Tensor& y, const std::optional<Tensor>&, bool accumulate) {
  const Tensor places = flat_places(x);
  const auto [distinct, position] = group(places);
  const auto [at, found] = look_up(distinct, flat_places(y));
  Tensor values = y._values();
  if (accumulate) {
    const Tensor counts = sum_by_group(at::ones_like(places), position, distinct.size(0)).index_select(0, at);
    values = values.mul(beside_values(counts, values)).to(values.scalar_type());
  }
  set_coo(out, y._indices().clone(), values.masked_fill(beside_values(found.logical_not(), values), 0), y.sizes(),
          false);
}

}  // namespace

Tensor coalesce(const Tensor& self) {
  if (self._nnz() < 2) return self.clone()._coalesced_(true);
  const auto [distinct, position] = group(flat_places(self));
  const Tensor indices = places_of(distinct, self.sizes().slice(0, self.sparse_dim()));
  return make_coo(indices, sum_by_group(self._values(), position, distinct.size(0)), self.sizes(), true);
}

Tensor& add_coo_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  if (!self.is_sparse()) return add_dense(self, other, alpha, out);
  TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
              " != ", other.sizes());
  const ScalarType common = at::promote_types(self.scalar_type(), other.scalar_type());
  check_castable(common, out, "add");
  if (other._nnz() == 0) return at::copy_sparse_to_sparse_(out, self);
  const auto scaled = [&] {
    const Tensor values = other._values().to(common);
    return alpha.equal(1) || common == at::kBool ? values : values.mul(alpha);
  };
  if (self._nnz() == 0) return set_coo(out, other._indices().clone(), scaled(), other.sizes(), other.is_coalesced());
  TORCH_CHECK(self.sparse_dim() == other.sparse_dim(),
              "add: expected 'self' and 'other' to have same density, but 'self' has ", self.sparse_dim(),
              " sparse dimensions while 'other' has ", other.sparse_dim(), " sparse dimensions");
  const Tensor sum = make_coo(at::cat({self._indices(), other._indices()}, 1),
                              at::cat({self._values().to(common), scaled()}, 0), self.sizes(), false);
  const bool merge = (self.is_coalesced() && other.is_coalesced()) || sum._nnz() > sum.numel();
  const Tensor result = merge ? aten::coalesce(sum) : sum;
  return set_coo(out, result._indices(), result._values(), result.sizes(), result.is_coalesced());
}

Tensor& mul_coo_out(const Tensor& self, const Tensor& other, Tensor& out) {
  if (!other.is_sparse()) return mul_dense(other, self, out);
  if (!self.is_sparse()) return mul_dense(self, other, out);
  // Of two 0-d factors, the one of several elements keeps them.
  if (self.dim() == 0 && (other.dim() > 0 || self._nnz() == 1)) return mul_dense(scalar_value(self), other, out);
  if (other.dim() == 0) return mul_dense(scalar_value(other), self, out);
  return mul_sparse(self, other, out);
}

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

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub,
                              static_cast<Tensor (*)(const Tensor&, IntArrayRef)>(&atalla::aten::flat_places))
REGISTER_PRIVATEUSE1_DISPATCH(sparse_mask_intersection_out_stub, &atalla::aten::mask_values)
REGISTER_PRIVATEUSE1_DISPATCH(sparse_mask_projection_out_stub, &atalla::aten::project_values)
}  // namespace at::native
