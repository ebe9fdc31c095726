// SPDX-License-Identifier: BSD-3-Clause
//
// Tables of rows: the gradient of embedding, and the bound on the norm of its rows.

#include "aten/kernels/index/scatter.h"

namespace atalla::aten {

Tensor embedding_dense_backward(const Tensor& grad_output, const Tensor& indices, int64_t num_weights,
                                int64_t padding_idx, bool scale_grad_by_freq) {
  at::checkScalarTypes("embedding_backward", at::TensorArg(indices, "indices", 2), {at::kLong, at::kInt});
  const Tensor rows = indices.reshape({-1});
  Tensor grad = grad_output.reshape({rows.numel(), grad_output.size(-1)});
  Tensor out = at::zeros({num_weights, grad.size(1)}, grad.options());
  if (grad.numel() == 0) return out;
  if (scale_grad_by_freq) {
    Tensor counts = at::zeros({num_weights}, indices.options().dtype(at::kLong));
    write_rows(counts, 0, rows, at::full({}, 1, counts.options()), Combine::kAdd, false);
    grad = grad.div(counts.index_select(0, rows).unsqueeze(1));
  }
  write_rows(out, 0, rows, grad, Combine::kAdd, false);
  // Nothing else reaches the padding row, so what was added there is taken away as a whole.
  if (padding_idx >= 0 && padding_idx < num_weights) out.select(0, padding_idx).zero_();
  return out;
}

// A row that is named twice is read twice before it is written, and so is scaled once.
Tensor& embedding_renorm_(Tensor& self, const Tensor& indices, double max_norm, double norm_type) {
  at::checkDim("embedding_renorm_", at::TensorArg(self, "self", 1), 2);
  at::checkScalarTypes("embedding_renorm_", at::TensorArg(indices, "indices", 2), {at::kLong, at::kInt});
  if (indices.numel() == 0) return self;
  const Tensor names = indices.reshape({-1});
  const Tensor rows = self.index_select(0, names);
  const Tensor norms = at::linalg_vector_norm(rows, norm_type, IntArrayRef{1}, /*keepdim=*/true);
  const Tensor scaled = rows.mul(norms.add(1e-7).reciprocal().mul(max_norm));
  write_rows(self, 0, names, at::where(norms.gt(max_norm), scaled, rows), Combine::kAssign, false);
  return self;
}

}  // namespace atalla::aten
