// SPDX-License-Identifier: BSD-3-Clause
//
// Forward-mode derivatives of glu(x) = a * s(b), where [a, b] = x and s is the sigmoid, s' = s * (1 - s).
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sub.h>
#include <torch/library.h>

namespace atalla::aten {

namespace {

std::pair<at::Tensor, at::Tensor> halves(const at::Tensor& x, int64_t dim) {
  const int64_t half = x.size(dim) / 2;
  return {x.narrow(dim, 0, half), x.narrow(dim, half, half)};
}

// da * s + glu * (1 - s) * db
at::Tensor glu_jvp(const at::Tensor& glu, const at::Tensor& x, const at::Tensor& dx, int64_t dim) {
  const auto [da, db] = halves(dx, dim);
  const at::Tensor s = at::sigmoid(halves(x, dim).second);
  return at::add(at::mul(da, s), at::mul(at::mul(glu, at::rsub(s, 1)), db));
}

// Of [g * s, g * a * s'], the gradient for a cotangent g.
at::Tensor glu_backward_jvp(const at::Tensor& /*grad_x*/, const at::Tensor& grad_glu, const at::Tensor& x,
                            const at::Tensor& dgrad_glu, const at::Tensor& dx, int64_t dim) {
  const auto [a, b] = halves(x, dim);
  const auto [da, db] = halves(dx, dim);
  const at::Tensor s = at::sigmoid(b), slope = at::mul(s, at::rsub(s, 1));
  const at::Tensor first = at::add(at::mul(dgrad_glu, s), at::mul(at::mul(grad_glu, slope), db));
  // (g * a)' * s' + g * a * s'' * db, with s'' = s' * (1 - 2 * s)
  const at::Tensor product = at::add(at::mul(dgrad_glu, a), at::mul(grad_glu, da));
  const at::Tensor bend = at::mul(slope, at::rsub(at::mul(s, 2), 1));
  const at::Tensor second = at::add(at::mul(product, slope), at::mul(at::mul(at::mul(grad_glu, a), bend), db));
  return at::cat({first, second}, dim);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("glu_jvp", TORCH_FN(glu_jvp));
  m.impl("glu_backward_jvp", TORCH_FN(glu_backward_jvp));
}

}  // namespace
}  // namespace atalla::aten
