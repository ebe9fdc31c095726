// SPDX-License-Identifier: BSD-3-Clause
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

void triangle(const Kernel& kernel, Triangle kept, const Tensor& self, int64_t diagonal, const Tensor& out) {
  launch(kernel, self.scalar_type(), {out}, {self}, TriangleParameters{.diagonal = diagonal, .kept = kept});
}

}  // namespace atalla::aten
