// SPDX-License-Identifier: BSD-3-Clause
//
// Linear combinations of stacked tensors, of which upstream makes the Taylor polynomials of matrix_exp.
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// input [terms, ...], coefficients [n, terms]: out [n, ...] += coefficients @ input.
Tensor& add_linear_combination_out(const Tensor& input, const Tensor& coefficients, Tensor& out) {
  TORCH_CHECK(input.dim() > 0 && coefficients.dim() == 2 && coefficients.size(1) == input.size(0),
              "_compute_linear_combination: expected input [terms, ...] and coefficients [n, terms], got ",
              input.sizes(), " and ", coefficients.sizes());
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), "_compute_linear_combination: expected out of ",
              input.scalar_type(), ", got ", out.scalar_type());
  if (out.numel() == 0) return out;
  const Tensor rows = input.reshape({input.size(0), -1});
  return out.add_(at::mm(coefficients.to(input.scalar_type()), rows).view_as(out));
}

Tensor linear_combination(const Tensor& input, const Tensor& coefficients) {
  DimVector sizes(input.sizes());
  if (!sizes.empty() && coefficients.dim() > 0) sizes[0] = coefficients.size(0);
  Tensor out = at::zeros(sizes, input.options());
  return add_linear_combination_out(input, coefficients, out);
}

}  // namespace atalla::aten
