// SPDX-License-Identifier: BSD-3-Clause
//
// QR factors and products of Householder reflectors.

#include "aten/kernels/linalg/linalg.h"

namespace atalla::aten {

namespace {

const Kernel kGeqrf("linalg.geqrf"), kHouseholderProduct("linalg.householder_product"), kOrmqr("linalg.ormqr");

void geqrf_in_place(const Tensor& a, const Tensor& tau) {
  LaunchBuilder(kGeqrf, a.scalar_type()).output(a).output(tau).input(a).launch(a.device());
}

Tensor& orgqr_in_place(Tensor& q, const Tensor& tau) {
  if (q.numel() > 0)
    LaunchBuilder(kHouseholderProduct, q.scalar_type()).output(q).input(q).input(tau).launch(q.device());
  return q;
}

void ormqr_in_place(const Tensor& reflectors, const Tensor& tau, const Tensor& other, bool left, bool transpose) {
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

}  // namespace atalla::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(geqrf_stub, &atalla::aten::geqrf_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(orgqr_stub, &atalla::aten::orgqr_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(ormqr_stub, &atalla::aten::ormqr_in_place)

}  // namespace at::native
