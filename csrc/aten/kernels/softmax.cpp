// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/WrapDimUtils.h>

#include "aten/launch.h"

namespace atalla::aten {

namespace {

const Kernel kSoftmax("softmax"), kLogSoftmax("log_softmax");

void launch_softmax(const Kernel& kernel, const char* name, const at::Tensor& self, int64_t dim, bool half_to_float,
                    const at::Tensor& out) {
  TORCH_CHECK(!half_to_float, name, " with half to float conversion is not supported on ", self.device().type());
  if (out.numel() == 0) return;
  LaunchBuilder(kernel, self.scalar_type())
      .output(out)
      .input(self)
      .iparam(0, at::maybe_wrap_dim(dim, self.dim()))
      .launch(self.device());
}

}  // namespace

void softmax(const at::Tensor& self, int64_t dim, bool half_to_float, const at::Tensor& out) {
  launch_softmax(kSoftmax, "softmax", self, dim, half_to_float, out);
}

void log_softmax(const at::Tensor& self, int64_t dim, bool half_to_float, const at::Tensor& out) {
  launch_softmax(kLogSoftmax, "log_softmax", self, dim, half_to_float, out);
}

}  // namespace atalla::aten
