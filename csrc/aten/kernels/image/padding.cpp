// SPDX-License-Identifier: BSD-3-Clause
//
// Padding by reflection and replication. (Constant padding is a fill and a copy, circular padding copies.)
#include "aten/dispatch/torch_version.h"
#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

namespace {

DimVector reflected_sizes2d(const Tensor& self, IntArrayRef padding) {
  check_padding_input<2>(self, padding);
  const int64_t h = self.dim() - 2, w = self.dim() - 1;
  const auto check = [&](int argument, int64_t dim, int64_t before, int64_t after) {
    TORCH_CHECK(before < self.size(dim) && after < self.size(dim), "Argument #", argument,
                ": Padding size should be less than the corresponding input dimension, but got: padding (", before,
                ", ", after, ") at dimension ", dim, " of input ", self.sizes());
  };
  check(4, w, padding[0], padding[1]);
  check(6, h, padding[2], padding[3]);
  DimVector sizes(self.sizes());
  sizes[w] += padding[0] + padding[1];
  sizes[h] += padding[2] + padding[3];
  TORCH_CHECK(sizes[w] >= 1 || sizes[h] >= 1, "input (H: ", self.size(h), ", W: ", self.size(w),
              ") is too small. Calculated output H: ", sizes[h], " W: ", sizes[w]);
  return sizes;
}

}  // namespace

void pad(const Kernel& kernel, const Tensor& self, IntArrayRef padding, const Tensor& out) {
  launch(kernel, self.scalar_type(), {out}, {self}, pad_parameters(self.dim(), padding));
}

Tensor& reflection_pad2d_out(const Kernel& kernel, const Tensor& self, IntArrayRef padding, Tensor& out) {
  out.resize_(reflected_sizes2d(self, padding), image_format(self, 2));
  pad(kernel, self, padding, out);
  return out;
}

// Of ops whose meta does not ask for the memory format.
void pad_in_format(const Kernel& kernel, const Tensor& self, IntArrayRef padding, const Tensor& out) {
  out.resize_(out.sizes(), self.suggest_memory_format());
  pad(kernel, self, padding, out);
}

}  // namespace atalla::aten
