// SPDX-License-Identifier: BSD-3-Clause
//
// A weight as direction and magnitude: w = v * g / |v|, the norm over all dimensions but one.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

std::tuple<Tensor, Tensor> weight_norm_interface(const Tensor& v, const Tensor& g, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  const DimVector dims = dims_but(v, dim);
  // Upstream keeps the norms of half-precision weights in float32.
  const ScalarType wide = at::isReducedFloatingType(v.scalar_type()) ? at::kFloat : v.scalar_type();
  // No dimension is left of a vector: its norm is its magnitude, element by element.
  const Tensor norms = dims.empty() ? v.to(wide).abs() : at::linalg_vector_norm(v, 2, dims, true, wide);
  return {at::mul(v, at::div(g, norms)).to(v.scalar_type()), norms};
}

std::tuple<Tensor, Tensor> weight_norm_interface_backward(const Tensor& grad_w, const Tensor& v, const Tensor& g,
                                                          const Tensor& norms, int64_t dim) {
  const DimVector dims = dims_but(v, dim);
  const Tensor product = at::mul(grad_w, v).to(norms.scalar_type());
  const Tensor along = dims.empty() ? product : at::sum(product, dims, true);
  const Tensor aligned = at::div(along, norms);
  const Tensor grad_v = at::mul(at::div(g, norms), at::sub(grad_w, at::mul(v, at::div(aligned, norms))));
  return {grad_v.to(v.scalar_type()), aligned.to(g.scalar_type())};
}

}  // namespace atalla::aten
