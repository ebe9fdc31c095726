// SPDX-License-Identifier: BSD-3-Clause
//
// QR factors and products of Householder reflectors.

#include "aten/kernels/linalg/linalg.h"

namespace atalla::aten {

namespace {

const Kernel kGeqrf("linalg.geqrf"), kHouseholderProduct("linalg.householder_product"), kOrmqr("linalg.ormqr");

void geqrf_in_place(const Tensor& a, const Tensor& tau) { launch(kGeqrf, a.scalar_type(), {a, tau}, {a}); }

Tensor& orgqr_in_place(Tensor& q, const Tensor& tau) {
  launch(kHouseholderProduct, q.scalar_type(), {q}, {q, tau});
  return q;
}

void ormqr_in_place(const Tensor& reflectors, const Tensor& tau, const Tensor& other, bool left, bool transpose) {
  launch(kOrmqr, other.scalar_type(), {other}, {reflectors, tau, other},
         LinalgOrmqrParameters{.left = left, .adjoint = transpose});
}

}  // namespace

}  // namespace atalla::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(geqrf_stub, &atalla::aten::geqrf_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(orgqr_stub, &atalla::aten::orgqr_in_place)
REGISTER_PRIVATEUSE1_DISPATCH(ormqr_stub, &atalla::aten::ormqr_in_place)

}  // namespace at::native
