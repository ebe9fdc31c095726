// SPDX-License-Identifier: BSD-3-Clause
//
// Linear, cubic and antialiased resampling, and the gradients of all resampling ops.
#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

// Of [n, c, ...] with as many spatial dimensions as there are scales; also the gradient of an op.
void resample(const Kernel& kernel, const Tensor& in, bool align_corners,
              std::initializer_list<std::optional<double>> scales, const Tensor& out) {
  const int64_t spatial = static_cast<int64_t>(scales.size());
  ResampleLinearParameters parameters{.align_corners = align_corners};
  set_scales(parameters.scale, scales);
  launch(kernel, in.scalar_type(), {Image(out, spatial)}, {Image(in, spatial)}, parameters);
}

}  // namespace atalla::aten
