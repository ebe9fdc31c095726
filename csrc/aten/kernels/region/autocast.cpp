// SPDX-License-Identifier: BSD-3-Clause
//
// Autocast of torchvision's ops: they run in float32, and results other than indices get the dtype of the input.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

using c10::SymInt;

// The op below autocast. Its library need not be there before the first call.
template <class F>
c10::TypedOperatorHandle<F> op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<F>();
}

Tensor single(const Tensor& t) { return at::autocast::cached_cast(at::kFloat, t, c10::DeviceType::PrivateUse1); }

struct WithoutAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::DispatchKey::AutocastPrivateUse1};
};

Tensor autocast_nms(const Tensor& dets, const Tensor& scores, double iou_threshold) {
  const WithoutAutocast guard;
  static const auto call = op<Tensor(const Tensor&, const Tensor&, double)>("torchvision::nms");
  return call.call(single(dets), single(scores), iou_threshold);
}

Tensor autocast_roi_align(const Tensor& input, const Tensor& rois, double scale, SymInt height, SymInt width,
                          int64_t ratio, bool aligned) {
  const WithoutAutocast guard;
  using F = Tensor(const Tensor&, const Tensor&, double, SymInt, SymInt, int64_t, bool);
  static const auto call = op<F>("torchvision::roi_align");
  return call.call(single(input), single(rois), scale, height, width, ratio, aligned).to(input.scalar_type());
}

using Results = std::tuple<Tensor, Tensor>;

// Upstream converts the second result too.
Results as_input(const Results& results, const Tensor& input) {
  return {std::get<0>(results).to(input.scalar_type()), std::get<1>(results).to(input.scalar_type())};
}

Results pool(const char* name, const Tensor& input, const Tensor& rois, double scale, SymInt height, SymInt width) {
  const WithoutAutocast guard;
  const auto call = op<Results(const Tensor&, const Tensor&, double, SymInt, SymInt)>(name);
  return as_input(call.call(single(input), single(rois), scale, height, width), input);
}

Results autocast_roi_pool(const Tensor& input, const Tensor& rois, double scale, SymInt height, SymInt width) {
  return pool("torchvision::roi_pool", input, rois, scale, height, width);
}

Results autocast_ps_roi_pool(const Tensor& input, const Tensor& rois, double scale, SymInt height, SymInt width) {
  return pool("torchvision::ps_roi_pool", input, rois, scale, height, width);
}

Results autocast_ps_roi_align(const Tensor& input, const Tensor& rois, double scale, SymInt height, SymInt width,
                              int64_t ratio) {
  const WithoutAutocast guard;
  using F = Results(const Tensor&, const Tensor&, double, SymInt, SymInt, int64_t);
  static const auto call = op<F>("torchvision::ps_roi_align");
  return as_input(call.call(single(input), single(rois), scale, height, width, ratio), input);
}

Tensor autocast_deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                              const Tensor& bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w,
                              SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups,
                              bool use_mask) {
  const WithoutAutocast guard;
  using T = const Tensor&;
  using F = Tensor(T, T, T, T, T, SymInt, SymInt, SymInt, SymInt, SymInt, SymInt, SymInt, SymInt, bool);
  static const auto call = op<F>("torchvision::deform_conv2d");
  return call
      .call(single(input), single(weight), single(offset), single(mask), single(bias), stride_h, stride_w, pad_h, pad_w,
            dilation_h, dilation_w, groups, offset_groups, use_mask)
      .to(input.scalar_type());
}

TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m) {
  m.impl("nms", TORCH_FN(autocast_nms));
  m.impl("roi_align", TORCH_FN(autocast_roi_align));
  m.impl("roi_pool", TORCH_FN(autocast_roi_pool));
  m.impl("ps_roi_align", TORCH_FN(autocast_ps_roi_align));
  m.impl("ps_roi_pool", TORCH_FN(autocast_ps_roi_pool));
  m.impl("deform_conv2d", TORCH_FN(autocast_deform_conv2d));
}

}  // namespace
}  // namespace atalla::aten
