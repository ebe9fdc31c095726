// SPDX-License-Identifier: BSD-3-Clause
//
// Running sums, products and extremes along a dimension.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include "aten/device/empty.h"
#include "aten/launch/launch.h"
#include "kernel_parameters.h"

namespace atalla::aten {

namespace {

const Kernel kCumsum("cumsum"), kCumprod("cumprod"), kLogcumsumexp("logcumsumexp"), kCummax("cummax"),
    kCummin("cummin");

void launch_scan(const Kernel& kernel, const at::Tensor& self, int64_t dim, const at::Tensor& out) {
  if (out.numel() == 0) return;
  LaunchBuilder(kernel, out.scalar_type())
      .output(out)
      .input(self)
      .parameters(CumsumParameters{.dim = at::maybe_wrap_dim(dim, self.dim())})
      .launch(self.device());
}

void launch_extreme(const Kernel& kernel, const at::Tensor& self, int64_t dim, const at::Tensor& values,
                    const at::Tensor& indices) {
  if (self.numel() == 0) return;
  LaunchBuilder(kernel, self.scalar_type())
      .output(values)
      .output(indices)
      .input(self)
      .parameters(CummaxParameters{.dim = at::maybe_wrap_dim(dim, self.dim())})
      .launch(self.device());
}

}  // namespace

void cumsum(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype, const at::Tensor& out) {
  launch_scan(kCumsum, self, dim, out);
}

void cumprod(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype, const at::Tensor& out) {
  launch_scan(kCumprod, self, dim, out);
}

at::Tensor& logcumsumexp_out(const at::Tensor& self, int64_t dim, at::Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::resize_output(out, self.sizes());
  launch_scan(kLogcumsumexp, self, dim, out);
  return out;
}

void cummax_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  launch_extreme(kCummax, self, dim, values, indices);
}

void cummin_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  launch_extreme(kCummin, self, dim, values, indices);
}

}  // namespace atalla::aten
