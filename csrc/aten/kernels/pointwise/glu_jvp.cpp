// SPDX-License-Identifier: BSD-3-Clause
//
// Forward-mode derivatives of glu(x) = a * s(b), where [a, b] = x and s is the sigmoid, s' = s * (1 - s).

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

std::pair<Tensor, Tensor> halves(const Tensor& x, int64_t dim) {
  const int64_t half = x.size(dim) / 2;
  return {x.narrow(dim, 0, half), x.narrow(dim, half, half)};
}

// da * s + glu * (1 - s) * db
Tensor glu_jvp(const Tensor& glu, const Tensor& x, const Tensor& dx, int64_t dim) {
  const auto [da, db] = halves(dx, dim);
  const Tensor s = at::sigmoid(halves(x, dim).second);
  return at::add(at::mul(da, s), at::mul(at::mul(glu, at::rsub(s, 1)), db));
}

// Of [g * s, g * a * s'], the gradient for a cotangent g.
Tensor glu_backward_jvp(const Tensor& /*grad_x*/, const Tensor& grad_glu, const Tensor& x, const Tensor& dgrad_glu,
                        const Tensor& dx, int64_t dim) {
  const auto [a, b] = halves(x, dim);
  const auto [da, db] = halves(dx, dim);
  const Tensor s = at::sigmoid(b), slope = at::mul(s, at::rsub(s, 1));
  const Tensor first = at::add(at::mul(dgrad_glu, s), at::mul(at::mul(grad_glu, slope), db));
  // (g * a)' * s' + g * a * s'' * db, with s'' = s' * (1 - 2 * s)
  const Tensor product = at::add(at::mul(dgrad_glu, a), at::mul(grad_glu, da));
  const Tensor bend = at::mul(slope, at::rsub(at::mul(s, 2), 1));
  const Tensor second = at::add(at::mul(product, slope), at::mul(at::mul(at::mul(grad_glu, a), bend), db));
  return at::cat({first, second}, dim);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("glu_jvp", TORCH_FN(glu_jvp));
  m.impl("glu_backward_jvp", TORCH_FN(glu_backward_jvp));
}

}  // namespace
}  // namespace atalla::aten
