// SPDX-License-Identifier: BSD-3-Clause
//
// Linear, cubic and antialiased resampling, and the gradients of all resampling ops.
#include "aten/kernels/image/spatial.h"

namespace atalla::aten {

namespace {

using Scale = std::optional<double>;

const Kernel kLinear("resample.linear"), kCubic("resample.cubic"), kLinearAntialias("resample.linear_aa"),
    kCubicAntialias("resample.cubic_aa"), kLanczosAntialias("resample.lanczos_aa");
const Kernel kLinearBackward("resample_backward.linear"), kCubicBackward("resample_backward.cubic"),
    kLinearAntialiasBackward("resample_backward.linear_aa"), kCubicAntialiasBackward("resample_backward.cubic_aa"),
    kLanczosAntialiasBackward("resample_backward.lanczos_aa"), kNearestBackward("resample_backward.nearest"),
    kNearestExactBackward("resample_backward.nearest_exact");

void resample(const Kernel& kernel, const Tensor& in, bool align_corners, std::initializer_list<Scale> scales,
              const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t spatial = static_cast<int64_t>(scales.size());
  ResampleLinearParameters parameters{.align_corners = align_corners};
  set_scales(parameters.scale, scales);
  launch(kernel, in.scalar_type(), {Image(out, spatial)}, {Image(in, spatial)}, parameters);
}

}  // namespace

void upsample_linear1d(const Tensor& self, IntArrayRef, bool align_corners, Scale scales, const Tensor& out) {
  resample(kLinear, self, align_corners, {scales}, out);
}
void upsample_trilinear3d(const Tensor& self, IntArrayRef, bool align_corners, Scale scales_d, Scale scales_h,
                          Scale scales_w, const Tensor& out) {
  resample(kLinear, self, align_corners, {scales_d, scales_h, scales_w}, out);
}

void upsample_linear1d_backward(const Tensor& grad_output, IntArrayRef, IntArrayRef, bool align_corners, Scale scales,
                                const Tensor& grad_input) {
  resample(kLinearBackward, grad_output, align_corners, {scales}, grad_input);
}
void upsample_trilinear3d_backward(const Tensor& grad_output, IntArrayRef, IntArrayRef, bool align_corners,
                                   Scale scales_d, Scale scales_h, Scale scales_w, const Tensor& grad_input) {
  resample(kLinearBackward, grad_output, align_corners, {scales_d, scales_h, scales_w}, grad_input);
}

// An op over [n, c, h, w], and its gradient.
#define ATALLA_DEFINE_RESAMPLE_2D(name, kernel)                                                                       \
  void name(const Tensor& self, IntArrayRef, bool align_corners, Scale scales_h, Scale scales_w, const Tensor& out) { \
    resample(kernel, self, align_corners, {scales_h, scales_w}, out);                                                 \
  }                                                                                                                   \
  void name##_backward(const Tensor& grad_output, IntArrayRef, IntArrayRef, bool align_corners, Scale scales_h,       \
                       Scale scales_w, const Tensor& grad_input) {                                                    \
    resample(kernel##Backward, grad_output, align_corners, {scales_h, scales_w}, grad_input);                         \
  }
ATALLA_DEFINE_RESAMPLE_2D(upsample_bilinear2d, kLinear)
ATALLA_DEFINE_RESAMPLE_2D(upsample_bicubic2d, kCubic)
ATALLA_DEFINE_RESAMPLE_2D(upsample_bilinear2d_aa, kLinearAntialias)
ATALLA_DEFINE_RESAMPLE_2D(upsample_bicubic2d_aa, kCubicAntialias)
ATALLA_DEFINE_RESAMPLE_2D(upsample_lanczos2d_aa, kLanczosAntialias)

void upsample_nearest1d_backward(const Tensor& grad_output, IntArrayRef, IntArrayRef, Scale scales,
                                 const Tensor& grad_input) {
  resample(kNearestBackward, grad_output, false, {scales}, grad_input);
}
void upsample_nearest2d_backward(const Tensor& grad_output, IntArrayRef, IntArrayRef, Scale scales_h, Scale scales_w,
                                 const Tensor& grad_input) {
  resample(kNearestBackward, grad_output, false, {scales_h, scales_w}, grad_input);
}
void upsample_nearest3d_backward(const Tensor& grad_output, IntArrayRef, IntArrayRef, Scale scales_d, Scale scales_h,
                                 Scale scales_w, const Tensor& grad_input) {
  resample(kNearestBackward, grad_output, false, {scales_d, scales_h, scales_w}, grad_input);
}
void upsample_nearest_exact1d_backward(const Tensor& grad_output, IntArrayRef, IntArrayRef, Scale scales,
                                       const Tensor& grad_input) {
  resample(kNearestExactBackward, grad_output, false, {scales}, grad_input);
}
void upsample_nearest_exact2d_backward(const Tensor& grad_output, IntArrayRef, IntArrayRef, Scale scales_h,
                                       Scale scales_w, const Tensor& grad_input) {
  resample(kNearestExactBackward, grad_output, false, {scales_h, scales_w}, grad_input);
}
void upsample_nearest_exact3d_backward(const Tensor& grad_output, IntArrayRef, IntArrayRef, Scale scales_d,
                                       Scale scales_h, Scale scales_w, const Tensor& grad_input) {
  resample(kNearestExactBackward, grad_output, false, {scales_d, scales_h, scales_w}, grad_input);
}

}  // namespace atalla::aten
