// SPDX-License-Identifier: BSD-3-Clause
//
// Nearest neighbours. Which of upstream's two roundings is taken depends on shape and layout; a sample that falls on a
// boundary would move otherwise.
#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

namespace {

const Kernel kNearest("resample.nearest");

using Scale = std::optional<double>;

bool takes_small_path(const Tensor& self, int64_t spatial, const Tensor& out) {
  if (spatial == 1) return false;
  const auto format = spatial == 2 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
  if (self.is_contiguous(format) && self.size(1) > 3) return true;
  return spatial == 2 && out.size(-2) + out.size(-1) <= 128;
}

void launch_nearest(const Tensor& self, NearestMode mode, int64_t spatial, std::initializer_list<Scale> scales,
                    const Tensor& out) {
  if (out.numel() == 0) return;
  if (takes_small_path(self, spatial, out))
    mode = mode == NearestMode::kFloor ? NearestMode::kFloorSmall : NearestMode::kExactSmall;
  ResampleNearestParameters parameters{.mode = mode};
  set_scales(parameters.scale, scales);
  launch(kNearest, self.scalar_type(), {Image(out, spatial)}, {Image(self, spatial)}, parameters);
}

}  // namespace

void upsample_nearest1d(const Tensor& self, IntArrayRef, Scale scales, const Tensor& out) {
  launch_nearest(self, NearestMode::kFloor, 1, {scales}, out);
}
void upsample_nearest2d(const Tensor& self, IntArrayRef, Scale scales_h, Scale scales_w, const Tensor& out) {
  launch_nearest(self, NearestMode::kFloor, 2, {scales_h, scales_w}, out);
}
void upsample_nearest3d(const Tensor& self, IntArrayRef, Scale scales_d, Scale scales_h, Scale scales_w,
                        const Tensor& out) {
  launch_nearest(self, NearestMode::kFloor, 3, {scales_d, scales_h, scales_w}, out);
}
void upsample_nearest_exact1d(const Tensor& self, IntArrayRef, Scale scales, const Tensor& out) {
  launch_nearest(self, NearestMode::kExact, 1, {scales}, out);
}
void upsample_nearest_exact2d(const Tensor& self, IntArrayRef, Scale scales_h, Scale scales_w, const Tensor& out) {
  launch_nearest(self, NearestMode::kExact, 2, {scales_h, scales_w}, out);
}
void upsample_nearest_exact3d(const Tensor& self, IntArrayRef, Scale scales_d, Scale scales_h, Scale scales_w,
                              const Tensor& out) {
  launch_nearest(self, NearestMode::kExact, 3, {scales_d, scales_h, scales_w}, out);
}

}  // namespace atalla::aten
