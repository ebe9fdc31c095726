// SPDX-License-Identifier: BSD-3-Clause
//
// Convolution. Upstream's `convolution` checks the arguments, turns 1-d cases into 2-d ones and calls the overrideable
// op.
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/convolution.h>

#include "aten/empty.h"
#include "aten/fallback.h"
#include "aten/launch.h"

namespace atalla::aten {

namespace {

const Kernel kConvolution("convolution");

// The generic fallback would call the same op on the CPU, where it is an error: call `convolution` itself.
at::Tensor on_host(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                   at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                   at::IntArrayRef output_padding, int64_t groups) {
  count_fallback("aten::convolution_overrideable", std::string(c10::getDtypeNames(input.scalar_type()).first));
  std::optional<at::Tensor> host_bias;
  if (bias && bias->defined()) host_bias = bias->cpu();
  return at::convolution(input.cpu(), weight.cpu(), host_bias, stride, padding, dilation, transposed, output_padding,
                         groups)
      .to(input.device());
}

}  // namespace

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  const int64_t spatial = input.dim() - 2;
  TORCH_CHECK(spatial >= 1 && spatial <= 3, "convolution expects 1 to 3 spatial dimensions, got an input of shape ",
              input.sizes());
  if (transposed) return on_host(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  const auto sizes = at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  at::Tensor out = empty(sizes, input.scalar_type(), input.device().index(), input.suggest_memory_format());
  if (out.numel() == 0) return out;
  LaunchBuilder builder(kConvolution, input.scalar_type());
  builder.output(out).input(input).input(weight).optional_input(bias ? *bias : at::Tensor());
  builder.iparam(0, groups);
  for (int d = 0; d < spatial; ++d) {
    builder.iparam(1 + d, stride[d]).iparam(4 + d, padding[d]).iparam(7 + d, dilation[d]);
  }
  builder.launch(input.device());
  return out;
}

}  // namespace atalla::aten
