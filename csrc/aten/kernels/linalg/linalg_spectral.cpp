// SPDX-License-Identifier: BSD-3-Clause
//
// Eigenvalues, singular values, the indefinite factorisation and the matrix exponential.

#include "aten/kernels/linalg/linalg.h"

namespace atalla::aten {

namespace {

// `vectors` holds the matrix, and then the eigenvectors.
void eigh_in_place(const Tensor& values, const Tensor& vectors, const Tensor& info, bool upper, bool compute_vectors) {
  launch(kLinalgEigh, vectors.scalar_type(), {values, compute_vectors ? vectors : Tensor(), info}, {vectors},
         LinalgEighParameters{.upper = upper});
}

void svd_into(const Tensor& a, bool full_matrices, bool compute_uv, const std::optional<std::string_view>& driver,
              const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info) {
  launch(kLinalgSvd, a.scalar_type(), {s, compute_uv ? u : Tensor(), compute_uv ? vh : Tensor(), info}, {a});
}

void ldl_factor_in_place(const Tensor& ld, const Tensor& pivots, const Tensor& info, bool upper, bool hermitian) {
  TORCH_CHECK_NOT_IMPLEMENTED(!upper, "linalg.ldl_factor: the chip factors the lower triangle");
  launch(kLinalgLdlFactor, ld.scalar_type(), {ld, pivots, info}, {ld},
         LinalgLdlFactorParameters{.hermitian = hermitian && ld.is_complex()});
}

void ldl_solve_in_place(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool upper, bool hermitian) {
  TORCH_CHECK_NOT_IMPLEMENTED(!upper, "linalg.ldl_solve: the chip factors the lower triangle");
  launch(kLinalgLdlSolve, b.scalar_type(), {b}, {ld, pivots, b},
         LinalgLdlSolveParameters{.hermitian = hermitian && ld.is_complex()});
}

void check_eig_input(const Tensor& self, const char* name) {
  at::native::squareCheckInputs(self, "linalg.eig");
  at::native::checkFloatingOrComplex(self, name, false);
  TORCH_CHECK(self.numel() == 0 || at::isfinite(self).all().item<bool>(), name,
              ": input tensor should not contain infs or NaNs.");
}

// `vectors` may be undefined.
void launch_eig(const Tensor& self, const Tensor& values, const Tensor& vectors, const char* name) {
  Tensor info = empty_info(self);
  if (values.numel() == 0) return;
  launch(kLinalgEig, self.scalar_type(), {values, vectors, info}, {self});
  at::_linalg_check_errors(info, name, self.dim() == 2);
}

Tensor make_values(const Tensor& self) {
  return empty_like_dtype(self, self.sizes().slice(0, self.dim() - 1), c10::toComplexType(self.scalar_type()));
}

Tensor make_vectors(const Tensor& self) {
  return empty_strided(self.sizes(), at::native::batched_matrix_contiguous_strides(self.sizes(), true),
                       c10::toComplexType(self.scalar_type()), self.device().index());
}

Tensor eigenvalues(const Tensor& self, const char* name) {
  check_eig_input(self, name);
  Tensor values = make_values(self);
  launch_eig(self, values, {}, name);
  return values;
}

}  // namespace

std::tuple<Tensor, Tensor> linalg_eig(const Tensor& self) {
  check_eig_input(self, "torch.linalg.eig");
  Tensor values = make_values(self), vectors = make_vectors(self);
  launch_eig(self, values, vectors, "torch.linalg.eig");
  return {values, vectors};
}

std::tuple<Tensor&, Tensor&> linalg_eig_out(const Tensor& self, Tensor& eigenvalues, Tensor& eigenvectors) {
  check_eig_input(self, "torch.linalg.eig");
  const ScalarType dtype = c10::toComplexType(self.scalar_type());
  at::native::checkLinalgCompatibleDtype("torch.linalg.eig", eigenvalues.scalar_type(), dtype, "eigenvalues");
  at::native::checkLinalgCompatibleDtype("torch.linalg.eig", eigenvectors.scalar_type(), dtype, "eigenvectors");
  at::native::checkSameDevice("torch.linalg.eig", eigenvalues, self, "eigenvalues");
  at::native::checkSameDevice("torch.linalg.eig", eigenvectors, self, "eigenvectors");
  const auto [values, vectors] = aten::linalg_eig(self);
  copy_result(values, eigenvalues);
  if (eigenvectors.numel() == 0 && eigenvectors.sizes() != vectors.sizes()) {  // takes the strides that the op prefers
    eigenvectors.resize_(vectors.mT().sizes());
    eigenvectors.transpose_(-2, -1);
  }
  copy_result(vectors, eigenvectors);
  return {eigenvalues, eigenvectors};
}

Tensor linalg_eigvals(const Tensor& self) { return eigenvalues(self, "torch.linalg.eigvals"); }

Tensor& linalg_eigvals_out(const Tensor& self, Tensor& out) {
  at::native::squareCheckInputs(self, "linalg.eigvals");
  at::native::checkLinalgCompatibleDtype("torch.linalg.eigvals", out.scalar_type(),
                                         c10::toComplexType(self.scalar_type()), "eigenvalues");
  at::native::checkSameDevice("torch.linalg.eigvals", out, self, "eigenvalues");
  return copy_result(eigenvalues(self, "torch.linalg.eigvals"), out);
}

Tensor linalg_matrix_exp(const Tensor& self) {
  at::native::squareCheckInputs(self, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(self, "linalg.matrix_exp");
  if (c10::isReducedFloatingType(self.scalar_type()))
    return aten::linalg_matrix_exp(self.to(at::kFloat)).to(self.scalar_type());
  Tensor out = empty_like_dtype(self, self.sizes(), self.scalar_type());
  launch(kLinalgMatrixExp, self.scalar_type(), {out}, {self});
  return out;
}

}  // namespace atalla::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(linalg_eigh_stub, &atalla::aten::eigh_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(svd_stub, &atalla::aten::svd_into)
REGISTER_PRIVATEUSE1_DISPATCH(ldl_factor_stub, &atalla::aten::ldl_factor_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(ldl_solve_stub, &atalla::aten::ldl_solve_in_place)

}  // namespace at::native
