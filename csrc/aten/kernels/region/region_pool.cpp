// SPDX-License-Identifier: BSD-3-Clause
//
// torchvision's pools of regions of images, and their gradients.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

void check(const char* op, const Tensor& input, const Tensor& rois, const char* input_name, const char* same_type) {
  check_devices(op, input, rois);
  TORCH_CHECK(input.dim() == 4, op, ": expected ", input_name, " of 4 dimensions, got ", input.dim());
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, "Tensor rois should have shape as Tensor[K, 5]");
  TORCH_CHECK(input.scalar_type() == rois.scalar_type(), input_name, same_type);
  TORCH_CHECK(at::isFloatingType(input.scalar_type()), op, ": expected ", input_name, " of a floating dtype, got ",
              input.scalar_type());
}

constexpr const char *kAlignTypes = " should have the same type as rois",
                     *kPoolTypes = " and rois must have the same dtype";

void check_bins(const char* op, int64_t pooled_height, int64_t pooled_width) {
  TORCH_CHECK(pooled_height > 0 && pooled_width > 0, op, ": expected at least one bin in each dimension, got ",
              pooled_height, " x ", pooled_width);
}

Tensor new_bins(const Tensor& input, const Tensor& rois, int64_t channels, int64_t height, int64_t width,
                ScalarType dtype) {
  return empty_like_dtype(input, {rois.size(0), channels, height, width}, dtype);
}

// The input's gradient. Without bins it is 0.
template <class... Parameters>
Tensor gradient(const Kernel& kernel, const Tensor& grad, const Tensor& rois, const char* same_type, IntArrayRef sizes,
                std::initializer_list<Operand> inputs, const Parameters&... parameters) {
  check(kernel.name(), grad, rois, "grad", same_type);
  const Tensor grad_input = empty_like_dtype(grad, sizes, grad.scalar_type());
  if (grad.numel() == 0) return grad_input.zero_();
  launch(kernel, grad.scalar_type(), {grad_input}, inputs, parameters...);
  return grad_input;
}

Tensor roi_align(const Tensor& input, const Tensor& rois, double spatial_scale, int64_t pooled_height,
                 int64_t pooled_width, int64_t sampling_ratio, bool aligned) {
  check("roi_align", input, rois, "input", kAlignTypes);
  check_bins("roi_align", pooled_height, pooled_width);
  const Tensor out = new_bins(input, rois, input.size(1), pooled_height, pooled_width, input.scalar_type());
  launch(kRoiAlign, input.scalar_type(), {out}, {input, rois},
         RoiAlignParameters{.spatial_scale = spatial_scale, .sampling_ratio = sampling_ratio, .aligned = aligned});
  return out;
}

Tensor roi_align_backward(const Tensor& grad, const Tensor& rois, double spatial_scale, int64_t /*pooled_height*/,
                          int64_t /*pooled_width*/, int64_t batch_size, int64_t channels, int64_t height, int64_t width,
                          int64_t sampling_ratio, bool aligned) {
  return gradient(
      kRoiAlignBackward, grad, rois, kAlignTypes, {batch_size, channels, height, width}, {grad, rois},
      RoiAlignBackwardParameters{.spatial_scale = spatial_scale, .sampling_ratio = sampling_ratio, .aligned = aligned});
}

// Sensitive to positions: each bin has channels of its own. The results are the bins and their channels.
template <class Parameters>
std::tuple<Tensor, Tensor> sensitive(const Kernel& kernel, const Tensor& input, const Tensor& rois, int64_t height,
                                     int64_t width, const char* same_type, const Parameters& parameters) {
  check(kernel.name(), input, rois, "input", same_type);
  check_bins(kernel.name(), height, width);
  TORCH_CHECK(input.size(1) % (height * width) == 0,
              "input channels must be a multiple of pooling height * pooling width");
  const int64_t channels = input.size(1) / (height * width);
  const Tensor out = new_bins(input, rois, channels, height, width, input.scalar_type());
  const Tensor mapping = new_bins(input, rois, channels, height, width, at::kInt);
  launch(kernel, input.scalar_type(), {out, mapping}, {input, rois}, parameters);
  return {out, mapping};
}

std::tuple<Tensor, Tensor> ps_roi_align(const Tensor& input, const Tensor& rois, double spatial_scale,
                                        int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio) {
  return sensitive(kPsRoiAlign, input, rois, pooled_height, pooled_width, kAlignTypes,
                   PsRoiAlignParameters{.spatial_scale = spatial_scale, .sampling_ratio = sampling_ratio});
}

std::tuple<Tensor, Tensor> ps_roi_pool(const Tensor& input, const Tensor& rois, double spatial_scale,
                                       int64_t pooled_height, int64_t pooled_width) {
  return sensitive(kPsRoiPool, input, rois, pooled_height, pooled_width, kPoolTypes,
                   PsRoiPoolParameters{.spatial_scale = spatial_scale});
}

// The channels of bins follow from their places, so that the gradients do not read them.
Tensor ps_roi_align_backward(const Tensor& grad, const Tensor& rois, const Tensor& /*channel_mapping*/,
                             double spatial_scale, int64_t /*pooled_height*/, int64_t /*pooled_width*/,
                             int64_t sampling_ratio, int64_t batch_size, int64_t channels, int64_t height,
                             int64_t width) {
  return gradient(kPsRoiAlignBackward, grad, rois, kAlignTypes, {batch_size, channels, height, width}, {grad, rois},
                  PsRoiAlignBackwardParameters{.spatial_scale = spatial_scale, .sampling_ratio = sampling_ratio});
}

Tensor ps_roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor& /*channel_mapping*/,
                            double spatial_scale, int64_t /*pooled_height*/, int64_t /*pooled_width*/,
                            int64_t batch_size, int64_t channels, int64_t height, int64_t width) {
  return gradient(kPsRoiPoolBackward, grad, rois, kPoolTypes, {batch_size, channels, height, width}, {grad, rois},
                  PsRoiPoolBackwardParameters{.spatial_scale = spatial_scale});
}

std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& rois, double spatial_scale,
                                    int64_t pooled_height, int64_t pooled_width) {
  check("roi_pool", input, rois, "input", kPoolTypes);
  check_bins("roi_pool", pooled_height, pooled_width);
  const Tensor out = new_bins(input, rois, input.size(1), pooled_height, pooled_width, input.scalar_type());
  const Tensor argmax = new_bins(input, rois, input.size(1), pooled_height, pooled_width, at::kInt);
  launch(kRoiPool, input.scalar_type(), {out, argmax}, {input, rois},
         RoiPoolParameters{.spatial_scale = spatial_scale});
  return {out, argmax};
}

Tensor roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor& argmax, double /*spatial_scale*/,
                         int64_t /*pooled_height*/, int64_t /*pooled_width*/, int64_t batch_size, int64_t channels,
                         int64_t height, int64_t width) {
  check_devices("roi_pool_backward", grad, argmax);
  TORCH_CHECK(argmax.scalar_type() == at::kInt, "roi_pool_backward: expected argmax of dtype Int, got ",
              argmax.scalar_type());
  return gradient(kRoiPoolBackward, grad, rois, kPoolTypes, {batch_size, channels, height, width},
                  {grad, argmax, rois});
}

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  m.impl("roi_align", TORCH_FN(roi_align));
  m.impl("_roi_align_backward", TORCH_FN(roi_align_backward));
  m.impl("ps_roi_align", TORCH_FN(ps_roi_align));
  m.impl("_ps_roi_align_backward", TORCH_FN(ps_roi_align_backward));
  m.impl("ps_roi_pool", TORCH_FN(ps_roi_pool));
  m.impl("_ps_roi_pool_backward", TORCH_FN(ps_roi_pool_backward));
  m.impl("roi_pool", TORCH_FN(roi_pool));
  m.impl("_roi_pool_backward", TORCH_FN(roi_pool_backward));
}

}  // namespace
}  // namespace atalla::aten
