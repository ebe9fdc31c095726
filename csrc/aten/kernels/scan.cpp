// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/WrapDimUtils.h>

#include "aten/launch.h"

namespace atalla::aten {

namespace {

const Kernel kCumsum("cumsum");

}  // namespace

void cumsum(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype, const at::Tensor& out) {
  if (out.numel() == 0) return;
  LaunchBuilder(kCumsum, out.scalar_type())
      .output(out)
      .input(self)
      .iparam(0, at::maybe_wrap_dim(dim, self.dim()))
      .launch(self.device());
}

}  // namespace atalla::aten
