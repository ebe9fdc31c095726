// SPDX-License-Identifier: BSD-3-Clause
//
// Running sums, products and extremes along a dimension.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

void launch_scan(const Kernel& kernel, const Tensor& self, int64_t dim, const Tensor& out) {
  launch(kernel, out.scalar_type(), {out}, {self}, CumsumParameters{.dim = at::maybe_wrap_dim(dim, self.dim())});
}

}  // namespace

void scan(const Kernel& kernel, const Tensor& self, int64_t dim, const Tensor& out) {
  // The result has the dtype that is asked for: BOOL alone is summed in int64.
  TORCH_CHECK_NOT_IMPLEMENTED(out.scalar_type() != at::kBool, "\"", kernel.name(), "\" not implemented for 'Bool'");
  launch_scan(kernel, self, dim, out);
}

Tensor& logcumsumexp_out(const Kernel& kernel, const Tensor& self, int64_t dim, Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::resize_output(out, self.sizes());
  launch_scan(kernel, self, dim, out);
  return out;
}

void scan_extremes(const Kernel& kernel, const Tensor& self, Tensor& values, Tensor& indices, int64_t dim) {
  launch(kernel, self.scalar_type(), {values, indices}, {self},
         CummaxParameters{.dim = at::maybe_wrap_dim(dim, self.dim())});
}

}  // namespace atalla::aten
