// SPDX-License-Identifier: BSD-3-Clause
//
// Resampling, and the gradients of all resampling ops.
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

namespace {

bool takes_small_path(const Tensor& self, int64_t spatial, const Tensor& out) {
  if (spatial == 1) return false;
  const auto format = spatial == 2 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
  if (self.is_contiguous(format) && self.size(1) > 3) return true;
  return spatial == 2 && out.size(-2) + out.size(-1) <= 128;
}

}  // namespace

void resample_nearest(const Kernel& kernel, NearestMode mode, const Tensor& self,
                      std::initializer_list<std::optional<double>> scales, const Tensor& out) {
  const int64_t spatial = static_cast<int64_t>(scales.size());
  if (takes_small_path(self, spatial, out))
    mode = mode == NearestMode::kFloor ? NearestMode::kFloorSmall : NearestMode::kExactSmall;
  ResampleNearestParameters parameters{.mode = mode};
  set_scales(parameters.scale, scales);
  launch(kernel, self.scalar_type(), {Image(out, spatial)}, {Image(self, spatial)}, parameters);
}

}  // namespace atalla::aten
