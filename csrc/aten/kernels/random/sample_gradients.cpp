// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of samples by the parameters of their distributions.
#include "aten/kernels/pointwise/pointwise.h"

namespace atalla::aten {

namespace {

const PointwiseKernel kGammaGradient{"pointwise.standard_gamma_grad", kFloatingDtypes, 2};
const PointwiseKernel kDirichletGradient{"pointwise.dirichlet_grad", kFloatingDtypes, 3};

}  // namespace

Tensor standard_gamma_grad(const Tensor& self, const Tensor& output) {
  auto iterator = floating_iterator({Tensor()}, self, output);
  run_pointwise(iterator, kGammaGradient);
  return iterator.output();
}

Tensor dirichlet_grad(const Tensor& x, const Tensor& alpha, const Tensor& total) {
  auto iterator = floating_iterator({Tensor()}, x, alpha, total);
  run_pointwise(iterator, kDirichletGradient);
  return iterator.output();
}

}  // namespace atalla::aten
