// SPDX-License-Identifier: BSD-3-Clause
//
// Running sums, products and extremes along a dimension.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

const Kernel kCumsum("cumsum"), kCumprod("cumprod"), kLogcumsumexp("logcumsumexp"), kCummax("cummax"),
    kCummin("cummin");

void launch_scan(const Kernel& kernel, const Tensor& self, int64_t dim, const Tensor& out) {
  if (out.numel() == 0) return;
  launch(kernel, out.scalar_type(), {out}, {self}, CumsumParameters{.dim = at::maybe_wrap_dim(dim, self.dim())});
}

void launch_extreme(const Kernel& kernel, const Tensor& self, int64_t dim, const Tensor& values,
                    const Tensor& indices) {
  if (self.numel() == 0) return;
  launch(kernel, self.scalar_type(), {values, indices}, {self},
         CummaxParameters{.dim = at::maybe_wrap_dim(dim, self.dim())});
}

void check_is_no_bool(const char* name, const Tensor& out) {  // of `dtype`: BOOL alone is summed in int64
  TORCH_CHECK_NOT_IMPLEMENTED(out.scalar_type() != at::kBool, "\"", name, "\" not implemented for 'Bool'");
}

}  // namespace

void cumsum(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype, const Tensor& out) {
  check_is_no_bool("cumsum", out);
  launch_scan(kCumsum, self, dim, out);
}

void cumprod(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype, const Tensor& out) {
  check_is_no_bool("cumprod", out);
  launch_scan(kCumprod, self, dim, out);
}

Tensor& logcumsumexp_out(const Tensor& self, int64_t dim, Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::resize_output(out, self.sizes());
  at::assert_no_internal_overlap(out);
  at::assert_no_partial_overlap(out, self);
  launch_scan(kLogcumsumexp, self, dim, out);
  return out;
}

void cummax_helper(const Tensor& self, Tensor& values, Tensor& indices, int64_t dim) {
  launch_extreme(kCummax, self, dim, values, indices);
}

void cummin_helper(const Tensor& self, Tensor& values, Tensor& indices, int64_t dim) {
  launch_extreme(kCummin, self, dim, values, indices);
}

}  // namespace atalla::aten
