// SPDX-License-Identifier: BSD-3-Clause
//
// Views of nested tensors of strided layout. Their metadata is on the CPU, so PyTorch's kernels compute it.
#include <ATen/ops/select_native.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// PyTorch's kernel writes past the end of the sizes if the dimension is negative.
Tensor nested_select(const Tensor& self, int64_t dim, int64_t index) {
  return at::native::select_nested(self, at::maybe_wrap_dim(dim, self.dim()), index);
}

}  // namespace atalla::aten
