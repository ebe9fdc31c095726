// SPDX-License-Identifier: BSD-3-Clause
//
// conv_tbc: a convolution over time. Integers and complex numbers take upstream's composition of matrix products.
#include <ATen/ops/conv_tbc_native.h>
#include <ATen/ops/empty.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

Tensor conv_tbc(const Kernel& kernel, const Tensor& self, const Tensor& weight, const Tensor& bias, int64_t pad) {
  if (!at::isFloatingType(self.scalar_type())) return at::native::conv_tbc(self, weight, bias, pad);
  TORCH_CHECK(self.dim() == 3, "Input must have 3 dims: time, batch, in_channel");
  TORCH_CHECK(weight.dim() == 3, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
  TORCH_CHECK(bias.dim() == 1, "Bias must be 1-D");
  TORCH_CHECK(self.size(2) == weight.size(1), "Input dim 2 (input channels) is not == dim 1 in the weight tensor (",
              self.size(2), " and ", weight.size(1), ")");
  TORCH_CHECK(weight.size(2) == bias.size(0), "Bias size must equal dim 2 in the weight tensor (output channels).");
  TORCH_CHECK(self.scalar_type() == weight.scalar_type() && self.scalar_type() == bias.scalar_type(),
              "expected input, weight and bias to have the same dtype, but got: ", self.scalar_type(), ", ",
              weight.scalar_type(), " and ", bias.scalar_type());
  Tensor out = at::empty({self.size(0) - weight.size(0) + 1 + 2 * pad, self.size(1), weight.size(2)}, self.options());
  launch(kernel, self.scalar_type(), {out}, {self, weight, bias}, ConvTbcParameters{.padding = pad});
  return out;
}

}  // namespace atalla::aten
