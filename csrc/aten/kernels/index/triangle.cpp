// SPDX-License-Identifier: BSD-3-Clause
#include "aten/launch/launch.h"
#include "kernel_parameters.h"

namespace atalla::aten {

namespace {

const Kernel kTriangle("triangle");

void launch_triangle(const at::Tensor& self, int64_t diagonal, bool upper, const at::Tensor& out) {
  if (out.numel() == 0) return;
  LaunchBuilder(kTriangle, self.scalar_type())
      .output(out)
      .input(self)
      .parameters(TriangleParameters{.diagonal = diagonal, .upper = upper})
      .launch(self.device());
}

}  // namespace

void tril(const at::Tensor& self, int64_t diagonal, const at::Tensor& out) {
  launch_triangle(self, diagonal, false, out);
}
void triu(const at::Tensor& self, int64_t diagonal, const at::Tensor& out) {
  launch_triangle(self, diagonal, true, out);
}

}  // namespace atalla::aten
