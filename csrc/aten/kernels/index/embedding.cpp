// SPDX-License-Identifier: BSD-3-Clause
//
// Tables of rows: the gradient of embedding, and the bound on the norm of its rows.
#include <ATen/TensorUtils.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "aten/kernels/index/scatter.h"

namespace atalla::aten {

at::Tensor embedding_dense_backward(const at::Tensor& grad_output, const at::Tensor& indices, int64_t num_weights,
                                    int64_t padding_idx, bool scale_grad_by_freq) {
  at::checkScalarTypes("embedding_backward", at::TensorArg(indices, "indices", 2), {at::kLong, at::kInt});
  const at::Tensor rows = indices.reshape({-1});
  at::Tensor grad = grad_output.reshape({rows.numel(), grad_output.size(-1)});
  at::Tensor out = at::zeros({num_weights, grad.size(1)}, grad.options());
  if (grad.numel() == 0) return out;
  if (scale_grad_by_freq) {
    at::Tensor counts = at::zeros({num_weights}, indices.options().dtype(at::kLong));
    write_rows(counts, 0, rows, at::full({}, 1, counts.options()), Combine::kAdd, false);
    grad = grad.div(counts.index_select(0, rows).unsqueeze(1));
  }
  write_rows(out, 0, rows, grad, Combine::kAdd, false);
  // Nothing else reaches the padding row, so what was added there is taken away as a whole.
  if (padding_idx >= 0 && padding_idx < num_weights) out.select(0, padding_idx).zero_();
  return out;
}

// A row that is named twice is read twice before it is written, and so is scaled once.
at::Tensor& embedding_renorm_(at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type) {
  at::checkDim("embedding_renorm_", at::TensorArg(self, "self", 1), 2);
  at::checkScalarTypes("embedding_renorm_", at::TensorArg(indices, "indices", 2), {at::kLong, at::kInt});
  if (indices.numel() == 0) return self;
  const at::Tensor names = indices.reshape({-1});
  const at::Tensor rows = self.index_select(0, names);
  const at::Tensor norms = at::linalg_vector_norm(rows, norm_type, at::IntArrayRef{1}, /*keepdim=*/true);
  const at::Tensor scaled = rows.mul(norms.add(1e-7).reciprocal().mul(max_norm));
  write_rows(self, 0, names, at::where(norms.gt(max_norm), scaled, rows), Combine::kAssign, false);
  return self;
}

}  // namespace atalla::aten
