// SPDX-License-Identifier: BSD-3-Clause
//
// cdist, pdist and cross.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// The common batch of rows x1 and x2, without their last two dimensions.
DimVector common_batch(const Tensor& x1, const Tensor& x2) {
  const IntArrayRef s1 = x1.sizes(), s2 = x2.sizes();
  return at::infer_size_dimvector(s1.slice(0, s1.size() - 2), s2.slice(0, s2.size() - 2));
}

}  // namespace

// Distances are taken directly in every mode: the way by a matrix product loses digits of short ones.
Tensor cdist_forward(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t> compute_mode) {
  TORCH_CHECK(x1.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", x1.dim(), "D");
  TORCH_CHECK(x2.dim() >= 2, "cdist only supports at least 2D tensors, X2 got: ", x2.dim(), "D");
  TORCH_CHECK(x1.size(-1) == x2.size(-1), "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
              " X2: ", x2.size(-1));
  TORCH_CHECK(x1.scalar_type() == x2.scalar_type(), "expected scalar type ", x1.scalar_type(), " but found ",
              x2.scalar_type());
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  const int64_t mode = compute_mode.value_or(0);
  TORCH_CHECK(mode >= 0 && mode <= 2, "possible modes: 0, 1, 2, but was: ", mode);
  const DimVector batch = common_batch(x1, x2);
  DimVector sizes1(batch), sizes2(batch), sizes(batch);
  const int64_t m = x1.size(-2), n = x2.size(-2), k = x1.size(-1);
  sizes1.append({m, k});
  sizes2.append({n, k});
  sizes.append({m, n});
  if (k == 0) return at::zeros(sizes, x1.options());
  Tensor out = empty_like_dtype(x1, sizes, x1.scalar_type());
  const int64_t count = c10::multiply_integers(batch);
  // The expanded batch is only copied where it does not fold into one dimension.
  launch(kCdist, x1.scalar_type(), {out.view({count, m, n})},
         {x1.contiguous().expand(sizes1).reshape({count, m, k}), x2.contiguous().expand(sizes2).reshape({count, n, k})},
         CdistParameters{.p = p});
  return out;
}

Tensor pdist_forward(const Tensor& self, double p) {
  TORCH_CHECK(self.is_contiguous(), "_pdist_forward requires contiguous input");
  const int64_t n = self.size(0), pairs = n > 1 ? n * (n - 1) / 2 : 0;
  if (pairs > 0 && self.size(1) == 0) return at::zeros({pairs}, self.options());
  Tensor out = empty_like_dtype(self, {pairs}, self.scalar_type());
  if (pairs == 0) return out;
  launch(kPdist, self.scalar_type(), {out}, {self}, PdistParameters{.p = p});
  return out;
}

// As upstream's, the result has the common batch: what was broadcast is summed by the caller. vmap over the gradient
// alone comes here with more gradients than points, and takes the result for that of all of them.
Tensor cdist_backward(const Tensor& grad, const Tensor& x1, const Tensor& x2, double p, const Tensor& cdist) {
  const DimVector batch = common_batch(x1, x2);
  const int64_t m = x1.size(-2), n = x2.size(-2), k = x1.size(-1), count = c10::multiply_integers(batch);
  if (m == 0 || n == 0 || k == 0 || count == 0) return at::zeros(x1.sizes(), x1.options());
  DimVector sizes1(batch), sizes2(batch);
  TORCH_CHECK(grad.numel() == count * m * n && cdist.numel() == count * m * n,
              "_cdist_backward: expected a gradient and distances for each pair of points, got the sizes ",
              grad.sizes(), " and ", cdist.sizes(), " for points of ", x1.sizes(), " and ", x2.sizes(),
              "; vmap over the gradient alone is not supported: batch the points as well");
  sizes1.append({m, k});
  sizes2.append({n, k});
  Tensor out = empty_like_dtype(x1, sizes1, x1.scalar_type());
  launch(kCdistBackward, x1.scalar_type(), {out.view({count, m, k})},
         {grad.contiguous().view({count, m, n}), x1.expand(sizes1).contiguous().view({count, m, k}),
          x2.expand(sizes2).contiguous().view({count, n, k}), cdist.contiguous().view({count, m, n})},
         CdistBackwardParameters{.p = p});
  return out;
}

Tensor pdist_backward(const Tensor& grad, const Tensor& self, double p, const Tensor& pdist) {
  TORCH_CHECK(self.is_contiguous(), "_pdist_backward requires self to be contiguous");
  TORCH_CHECK(pdist.is_contiguous(), "_pdist_backward requires pdist to be contiguous");
  Tensor out = empty_like_dtype(self, self.sizes(), self.scalar_type());
  if (pdist.numel() == 0) return out.zero_();
  launch(kPdistBackward, self.scalar_type(), {out}, {grad.contiguous(), self, pdist}, PdistBackwardParameters{.p = p});
  return out;
}

void linalg_cross(const Tensor& self, const Tensor& other, int64_t dim, const Tensor& out) {
  const ScalarType own = out.scalar_type();
  launch(kCross, own, {out}, {self.to(own).expand(out.sizes()), other.to(own).expand(out.sizes())},
         CrossParameters{.dim = at::maybe_wrap_dim(dim, out.dim())});
}

}  // namespace atalla::aten
