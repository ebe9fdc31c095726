// SPDX-License-Identifier: BSD-3-Clause
//
// QR factors and products of Householder reflectors.
#include <ATen/ops/geqrf_native.h>
#include <ATen/ops/linalg_householder_product_native.h>
#include <ATen/ops/linalg_qr_native.h>
#include <ATen/ops/ormqr_native.h>

#include "aten/kernels/linalg/linalg.h"

namespace atalla::aten {

namespace {

const Kernel kGeqrf("linalg.geqrf"), kHouseholderProduct("linalg.householder_product"), kOrmqr("linalg.ormqr");

void geqrf_in_place(const at::Tensor& a, const at::Tensor& tau) {
  LaunchBuilder(kGeqrf, a.scalar_type()).output(a).output(tau).input(a).launch(a.device());
}

at::Tensor& orgqr_in_place(at::Tensor& q, const at::Tensor& tau) {
  if (q.numel() > 0)
    LaunchBuilder(kHouseholderProduct, q.scalar_type()).output(q).input(q).input(tau).launch(q.device());
  return q;
}

void ormqr_in_place(const at::Tensor& reflectors, const at::Tensor& tau, const at::Tensor& other, bool left,
                    bool transpose) {
  if (other.numel() == 0) return;
  LaunchBuilder(kOrmqr, other.scalar_type())
      .output(other)
      .input(reflectors)
      .input(tau)
      .input(other)
      .parameters(LinalgOrmqrParameters{.left = left, .adjoint = transpose})
      .launch(other.device());
}

}  // namespace

void linalg_qr(const at::Tensor& A, c10::string_view mode, const at::Tensor& Q, const at::Tensor& R) {
  Implementation<at::native::structured_linalg_qr_out>().impl(A, mode, Q, R);
}

std::tuple<at::Tensor, at::Tensor> geqrf(const at::Tensor& self) { return at::native::geqrf(self); }

std::tuple<at::Tensor&, at::Tensor&> geqrf_out(const at::Tensor& self, at::Tensor& a, at::Tensor& tau) {
  return at::native::geqrf_out(self, a, tau);
}

at::Tensor ormqr(const at::Tensor& self, const at::Tensor& tau, const at::Tensor& other, bool left, bool transpose) {
  return at::native::ormqr(self, tau, other, left, transpose);
}

at::Tensor& ormqr_out(const at::Tensor& self, const at::Tensor& tau, const at::Tensor& other, bool left, bool transpose,
                      at::Tensor& out) {
  return at::native::ormqr_out(self, tau, other, left, transpose, out);
}

at::Tensor linalg_householder_product(const at::Tensor& input, const at::Tensor& tau) {
  return at::native::linalg_householder_product(input, tau);
}

at::Tensor& linalg_householder_product_out(const at::Tensor& input, const at::Tensor& tau, at::Tensor& out) {
  return at::native::linalg_householder_product_out(input, tau, out);
}

}  // namespace atalla::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(geqrf_stub, &atalla::aten::geqrf_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(orgqr_stub, &atalla::aten::orgqr_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(ormqr_stub, &atalla::aten::ormqr_in_place)

}  // namespace at::native
