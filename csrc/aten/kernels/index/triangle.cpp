// SPDX-License-Identifier: BSD-3-Clause
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

const Kernel kTriangle("triangle");

void launch_triangle(const Tensor& self, int64_t diagonal, Triangle kept, const Tensor& out) {
  if (out.numel() == 0) return;
  launch(kTriangle, self.scalar_type(), {out}, {self}, TriangleParameters{.diagonal = diagonal, .kept = kept});
}

}  // namespace

void tril(const Tensor& self, int64_t diagonal, const Tensor& out) {
  launch_triangle(self, diagonal, Triangle::kLower, out);
}
void triu(const Tensor& self, int64_t diagonal, const Tensor& out) {
  launch_triangle(self, diagonal, Triangle::kUpper, out);
}

}  // namespace atalla::aten
