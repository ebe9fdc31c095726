// SPDX-License-Identifier: BSD-3-Clause
//
// Autocast of torchvision's ops: they run in float32, and results other than indices get the dtype of the input.
#include <ATen/autocast_mode.h>

#include "aten/dispatch/boxed.h"
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

void run_in_float32(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const size_t first = stack->size() - op.schema().arguments().size();
  const ScalarType dtype = (*stack)[first].toTensor().scalar_type();
  for (size_t i = first; i < stack->size(); ++i)
    (*stack)[i] = map_tensors((*stack)[i], [](const Tensor& t) {
      return at::autocast::cached_cast(at::kFloat, t, c10::DeviceType::PrivateUse1);
    });
  op.callBoxed(stack);
  if (base_name(op.schema()) == "nms") return;
  // Upstream converts the second result of a pool too.
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i)
    (*stack)[i] = (*stack)[i].toTensor().to(dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m) {
  for (const char* op : {"nms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"})
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&run_in_float32>());
}

}  // namespace atalla::aten
