// SPDX-License-Identifier: BSD-3-Clause
//
// Convolution. Upstream's `convolution` checks the arguments, turns 1-d cases into 2-d ones, splits complex numbers
// into real ones, and calls the overrideable op.
#include "aten/kernels/matrix/convolution.h"

#include <ATen/native/ConvUtils.h>

#include <numeric>

namespace atalla::aten {

namespace {

const Kernel kConvolution("convolution");

// The outputs of a transposed convolution along one dimension that have the same remainder of (position + padding) by
// the stride: they see the same taps, and are a convolution of stride 1 with these taps, last one first.
struct Phase {
  int64_t first;     // output position; the others follow at the stride
  int64_t taps;      // may be none
  int64_t last_tap;  // of the weight
  int64_t tap_step;  // between taps
  int64_t dilation;  // of the input, from tap to tap
  int64_t padding;   // before the first element; may be negative
};

Phase phase_of(int64_t remainder, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  Phase phase{};
  phase.first = ((remainder - padding) % stride + stride) % stride;
  const int64_t common = std::gcd(stride, dilation);
  phase.tap_step = stride / common, phase.dilation = dilation / common;
  int64_t tap = 0;
  while (tap < phase.tap_step && (dilation * tap - remainder) % stride != 0) ++tap;
  if (tap == phase.tap_step || tap >= kernel) return phase;
  phase.taps = (kernel - 1 - tap) / phase.tap_step + 1;
  phase.last_tap = tap + (phase.taps - 1) * phase.tap_step;
  phase.padding = phase.dilation * (phase.taps - 1) - (phase.first + padding - dilation * tap) / stride;
  return phase;
}

// The weight of a transposed convolution as [output channels, input channels of a group, kernel...].
Tensor swapped_channels(const Tensor& weight, int64_t groups) {
  if (groups == 1) return weight.transpose(0, 1);
  DimVector grouped{groups, weight.size(0) / groups}, merged{weight.size(1) * groups, weight.size(0) / groups};
  for (int64_t d = 1; d < weight.dim(); ++d) grouped.push_back(weight.size(d));
  for (int64_t d = 2; d < weight.dim(); ++d) merged.push_back(weight.size(d));
  return weight.reshape(grouped).transpose(1, 2).reshape(merged);
}

// On the CPU oneDNN takes volumes of float32 only where they are large enough, or there are many of them, and no output
// padding of a stride or more.
bool volumes_last(const Tensor& input, const Tensor& weight, IntArrayRef stride, IntArrayRef output_padding,
                  int64_t groups) {
  if (input.scalar_type() == at::kDouble) return false;
  for (size_t d = 0; d < output_padding.size(); ++d)
    if (output_padding[d] >= stride[d]) return false;
  return input.scalar_type() != at::kFloat || groups > 1 || input.size(0) > 1 ||
         (weight.size(3) > 3 && weight.size(4) > 3) ||
         input.size(0) * input.size(1) * input.size(2) * input.size(3) > 20480;
}

void launch_phase(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                  at::ArrayRef<Phase> phases, int64_t groups) {
  DimVector sizes(weight.sizes()), strides(weight.strides());
  int64_t offset = 0;
  for (size_t d = 0; d < phases.size(); ++d) {
    offset += phases[d].last_tap * strides[2 + d];
    sizes[2 + d] = phases[d].taps;
    strides[2 + d] *= -phases[d].tap_step;
  }
  LaunchBuilder builder(kConvolution, out.scalar_type(), {out}, {input, {weight, sizes, strides}, bias});
  builder.operand(ConvolutionOperands::kWeight).addr += static_cast<uint64_t>(offset) * weight.element_size();
  ConvolutionParameters parameters{.groups = groups};
  for (size_t d = 0; d < phases.size(); ++d) {
    parameters.stride[d] = 1;
    parameters.padding[d] = phases[d].padding;
    parameters.dilation[d] = phases[d].dilation;
  }
  builder.parameters(parameters).launch(input.device());
}

}  // namespace

MemoryFormat convolution_format(const Tensor& input, const Tensor& weight, IntArrayRef stride,
                                IntArrayRef output_padding, int64_t groups) {
  for (const Tensor& t : {input, weight}) {
    const MemoryFormat format = t.suggest_memory_format();
    if (format == MemoryFormat::ChannelsLast) return format;
    if (format == MemoryFormat::ChannelsLast3d && volumes_last(input, weight, stride, output_padding, groups))
      return format;
  }
  return MemoryFormat::Contiguous;
}

void launch_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups,
                        const Tensor& outside) {
  ConvolutionParameters parameters{.groups = groups};
  for (int64_t d = 0; d < input.dim() - 2; ++d) {
    parameters.stride[d] = stride[d];
    parameters.padding[d] = padding[d];
    parameters.dilation[d] = dilation[d];
  }
  if (outside.defined()) launch(kConvolution, out.scalar_type(), {out}, {input, weight, bias, outside}, parameters);
  else launch(kConvolution, out.scalar_type(), {out}, {input, weight, bias}, parameters);
}

void transposed_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                            IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups) {
  if (out.numel() == 0) return;
  const Tensor swapped = swapped_channels(weight, groups);
  const int64_t spatial = input.dim() - 2;
  int64_t combinations = 1;
  for (int64_t d = 0; d < spatial; ++d) combinations *= stride[d];
  for (int64_t i = 0; i < combinations; ++i) {
    c10::SmallVector<Phase, 3> phases;
    Tensor part = out;
    bool sees_input = input.numel() > 0;
    for (int64_t d = 0, rest = i; d < spatial; rest /= stride[d], ++d) {
      phases.push_back(phase_of(rest % stride[d], weight.size(2 + d), stride[d], padding[d], dilation[d]));
      part = part.slice(2 + d, phases.back().first, std::nullopt, stride[d]);
      sees_input = sees_input && phases.back().taps > 0;
    }
    if (part.numel() == 0) continue;
    if (sees_input) {
      launch_phase(part, input, swapped, bias, phases, groups);
    } else if (bias.defined()) {
      DimVector shape(input.dim(), 1);
      shape[1] = bias.numel();
      part.copy_(bias.view(shape).expand(part.sizes()));
    } else {
      part.zero_();
    }
  }
}

Tensor convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   int64_t groups) {
  const int64_t spatial = input.dim() - 2;
  TORCH_CHECK(spatial >= 1 && spatial <= 3, "convolution expects 1 to 3 spatial dimensions, got an input of shape ",
              input.sizes());
  for (int64_t d = 0; transposed && d < spatial; ++d) {
    TORCH_CHECK(output_padding[d] < stride[d] || output_padding[d] < dilation[d],
                "output padding must be smaller than either stride or dilation, but got output_padding: ",
                output_padding, ", stride: ", stride, ", dilation: ", dilation);
  }
  const MemoryFormat format =
      convolution_format(input, weight, stride, transposed ? output_padding : IntArrayRef(), groups);
  const auto sizes = transposed
                         ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride,
                                                       dilation, groups)
                         : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  Tensor out = empty(sizes, input.scalar_type(), input.device().index(), format);
  if (transposed) transposed_convolution(out, input, weight, bias, stride, padding, dilation, groups);
  else launch_convolution(out, input, weight, bias, stride, padding, dilation, groups);
  return out;
}

}  // namespace atalla::aten
