// SPDX-License-Identifier: BSD-3-Clause
//
// Eigenvalues, singular values, the indefinite factorisation and the matrix exponential.
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/all.h>
#include <ATen/ops/isfinite.h>

#include "aten/kernels/linalg/linalg.h"

namespace atalla::aten {

namespace {

const Kernel kEigh("linalg.eigh"), kSvd("linalg.svd"), kEig("linalg.eig"), kLdlFactor("linalg.ldl_factor"),
    kLdlSolve("linalg.ldl_solve"), kMatrixExp("linalg.matrix_exp");

// `vectors` holds the matrix, and then the eigenvectors.
void eigh_in_place(const at::Tensor& values, const at::Tensor& vectors, const at::Tensor& info, bool upper,
                   bool compute_vectors) {
  LaunchBuilder(kEigh, vectors.scalar_type())
      .output(values)
      .optional_output(compute_vectors ? vectors : at::Tensor())
      .output(info)
      .input(vectors)
      .parameters(LinalgEighParameters{.upper = upper})
      .launch(vectors.device());
}

void svd_into(const at::Tensor& a, bool full_matrices, bool compute_uv, const std::optional<std::string_view>& driver,
              const at::Tensor& u, const at::Tensor& s, const at::Tensor& vh, const at::Tensor& info) {
  LaunchBuilder(kSvd, a.scalar_type())
      .output(s)
      .optional_output(compute_uv ? u : at::Tensor())
      .optional_output(compute_uv ? vh : at::Tensor())
      .output(info)
      .input(a)
      .launch(a.device());
}

void ldl_factor_in_place(const at::Tensor& ld, const at::Tensor& pivots, const at::Tensor& info, bool upper,
                         bool hermitian) {
  TORCH_CHECK_NOT_IMPLEMENTED(!upper, "linalg.ldl_factor: the chip factors the lower triangle");
  LaunchBuilder(kLdlFactor, ld.scalar_type())
      .output(ld)
      .output(pivots)
      .output(info)
      .input(ld)
      .parameters(LinalgLdlFactorParameters{.hermitian = hermitian && ld.is_complex()})
      .launch(ld.device());
}

void ldl_solve_in_place(const at::Tensor& ld, const at::Tensor& pivots, const at::Tensor& b, bool upper,
                        bool hermitian) {
  TORCH_CHECK_NOT_IMPLEMENTED(!upper, "linalg.ldl_solve: the chip factors the lower triangle");
  LaunchBuilder(kLdlSolve, b.scalar_type())
      .output(b)
      .input(ld)
      .input(pivots)
      .input(b)
      .parameters(LinalgLdlSolveParameters{.hermitian = hermitian && ld.is_complex()})
      .launch(b.device());
}

void check_eig_input(const at::Tensor& self, const char* name) {
  at::native::squareCheckInputs(self, "linalg.eig");
  at::native::checkFloatingOrComplex(self, name, false);
  TORCH_CHECK(self.numel() == 0 || at::isfinite(self).all().item<bool>(), name,
              ": input tensor should not contain infs or NaNs.");
}

// `vectors` may be undefined.
void launch_eig(const at::Tensor& self, const at::Tensor& values, const at::Tensor& vectors, const char* name) {
  at::Tensor info = empty_info(self);
  if (values.numel() == 0) return;
  LaunchBuilder(kEig, self.scalar_type())
      .output(values)
      .optional_output(vectors)
      .output(info)
      .input(self)
      .launch(self.device());
  at::_linalg_check_errors(info, name, self.dim() == 2);
}

at::Tensor make_values(const at::Tensor& self) {
  return empty_like_dtype(self, self.sizes().slice(0, self.dim() - 1), c10::toComplexType(self.scalar_type()));
}

at::Tensor make_vectors(const at::Tensor& self) {
  return empty_strided(self.sizes(), at::native::batched_matrix_contiguous_strides(self.sizes(), true),
                       c10::toComplexType(self.scalar_type()), self.device().index());
}

at::Tensor eigenvalues(const at::Tensor& self, const char* name) {
  check_eig_input(self, name);
  at::Tensor values = make_values(self);
  launch_eig(self, values, {}, name);
  return values;
}

void copy_result(const at::Tensor& from, at::Tensor& to) {
  at::native::resize_output(to, from.sizes());
  to.copy_(from);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> linalg_eig(const at::Tensor& self) {
  check_eig_input(self, "torch.linalg.eig");
  at::Tensor values = make_values(self), vectors = make_vectors(self);
  launch_eig(self, values, vectors, "torch.linalg.eig");
  return {values, vectors};
}

std::tuple<at::Tensor&, at::Tensor&> linalg_eig_out(const at::Tensor& self, at::Tensor& eigenvalues,
                                                    at::Tensor& eigenvectors) {
  check_eig_input(self, "torch.linalg.eig");
  const c10::ScalarType dtype = c10::toComplexType(self.scalar_type());
  at::native::checkLinalgCompatibleDtype("torch.linalg.eig", eigenvalues.scalar_type(), dtype, "eigenvalues");
  at::native::checkLinalgCompatibleDtype("torch.linalg.eig", eigenvectors.scalar_type(), dtype, "eigenvectors");
  at::native::checkSameDevice("torch.linalg.eig", eigenvalues, self, "eigenvalues");
  at::native::checkSameDevice("torch.linalg.eig", eigenvectors, self, "eigenvectors");
  const auto [values, vectors] = linalg_eig(self);
  copy_result(values, eigenvalues);
  if (eigenvectors.numel() == 0) {  // takes the strides that the op prefers
    eigenvectors.resize_(vectors.mT().sizes());
    eigenvectors.transpose_(-2, -1);
  }
  copy_result(vectors, eigenvectors);
  return {eigenvalues, eigenvectors};
}

at::Tensor linalg_eigvals(const at::Tensor& self) { return eigenvalues(self, "torch.linalg.eigvals"); }

at::Tensor& linalg_eigvals_out(const at::Tensor& self, at::Tensor& out) {
  at::native::squareCheckInputs(self, "linalg.eigvals");
  at::native::checkLinalgCompatibleDtype("torch.linalg.eigvals", out.scalar_type(),
                                         c10::toComplexType(self.scalar_type()), "eigenvalues");
  at::native::checkSameDevice("torch.linalg.eigvals", out, self, "eigenvalues");
  copy_result(eigenvalues(self, "torch.linalg.eigvals"), out);
  return out;
}

at::Tensor linalg_matrix_exp(const at::Tensor& self) {
  at::native::squareCheckInputs(self, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(self, "linalg.matrix_exp");
  if (c10::isReducedFloatingType(self.scalar_type()))
    return linalg_matrix_exp(self.to(at::kFloat)).to(self.scalar_type());
  at::Tensor out = empty_like_dtype(self, self.sizes(), self.scalar_type());
  if (out.numel() > 0) LaunchBuilder(kMatrixExp, self.scalar_type()).output(out).input(self).launch(self.device());
  return out;
}

}  // namespace atalla::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(linalg_eigh_stub, &atalla::aten::eigh_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(svd_stub, &atalla::aten::svd_into)
REGISTER_PRIVATEUSE1_DISPATCH(ldl_factor_stub, &atalla::aten::ldl_factor_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(ldl_solve_stub, &atalla::aten::ldl_solve_in_place)

}  // namespace at::native
