// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of samples by the parameters of their distributions.
#include "aten/kernels/pointwise/pointwise.h"

namespace atalla::aten {

Tensor dirichlet_grad(const PointwiseKernel& kernel, const Tensor& x, const Tensor& alpha, const Tensor& total) {
  auto iterator = floating_iterator({Tensor()}, x, alpha, total);
  run_pointwise(iterator, kernel);
  return iterator.output();
}

Tensor standard_gamma_grad(const PointwiseKernel& kernel, const Tensor& self, const Tensor& output) {
  auto iterator = floating_iterator({Tensor()}, self, output);
  run_pointwise(iterator, kernel);
  return iterator.output();
}

}  // namespace atalla::aten
