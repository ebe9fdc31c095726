// SPDX-License-Identifier: BSD-3-Clause
//
// Convolution, and its gradients. Upstream's `convolution` checks the arguments, turns 1-d cases into 2-d ones, splits
// complex numbers into real ones, and calls the overrideable op. `atalla::int_convolution` takes int8 tensors; its sums
// are int32.
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/conv_tbc_native.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <numeric>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

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

// Of the result and of both gradients, as on the CPU: channels last, if the input or the weight is. (Whether float16
// volumes are, depends on the CPU; here they are.) `output_padding` is that of a transposed convolution, else empty.
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

// One launch into `out`, whose spatial sizes need not be those that the input gives. What lies outside of the input
// counts as `outside` (a scalar, perhaps undefined: 0). The sums have the dtype of `out`.
void launch_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups,
                        const Tensor& outside = Tensor()) {
  ConvolutionParameters parameters{.groups = groups};
  for (int64_t d = 0; d < input.dim() - 2; ++d) {
    parameters.stride[d] = stride[d];
    parameters.padding[d] = padding[d];
    parameters.dilation[d] = dilation[d];
  }
  if (outside.defined()) launch(kConvolution, out.scalar_type(), {out}, {input, weight, bias, outside}, parameters);
  else launch(kConvolution, out.scalar_type(), {out}, {input, weight, bias}, parameters);
}

// Into `out`, from whose sizes the output padding follows.
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

}  // namespace

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

namespace {

// The channels of a group become the batch, and the batch becomes channels that are summed over.
Tensor batch_as_channels(const Tensor& t, int64_t groups) {
  if (groups == 1) return t.transpose(0, 1);
  const int64_t n = t.size(0), channels = t.size(1) / groups;
  DimVector grouped{n, groups, channels}, order{2, 1, 0}, merged{channels, groups * n};
  for (int64_t d = 2; d < t.dim(); ++d) {
    grouped.push_back(t.size(d));
    order.push_back(d + 1);
    merged.push_back(t.size(d));
  }
  return t.reshape(grouped).permute(order).reshape(merged);
}

// The gradient of the weight [co, ci, kernel...], which slid over `image` and gave `result` (of a transposed
// convolution: the other way round). A tap's is the sum of products of the result with the image shifted by the tap, so
// the result slides over the image, with stride and dilation exchanged.
Tensor weight_gradient(const Tensor& image, const Tensor& result, const Tensor& weight, IntArrayRef stride,
                       IntArrayRef padding, IntArrayRef dilation, int64_t groups, MemoryFormat format) {
  Tensor gradient = empty(weight.sizes(), weight.scalar_type(), weight.device().index(), format);
  if (image.numel() == 0 || result.numel() == 0) return gradient.zero_();
  launch_convolution(gradient.transpose(0, 1), batch_as_channels(image, groups), result.transpose(0, 1), Tensor(),
                     dilation, padding, stride, groups);
  return gradient;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad_output, const Tensor& input,
                                                        const Tensor& weight, IntArrayRef stride, IntArrayRef padding,
                                                        IntArrayRef dilation, bool transposed,
                                                        IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> output_mask) {
  Tensor grad_input, grad_weight, grad_bias;
  const MemoryFormat format =
      convolution_format(input, weight, stride, transposed ? output_padding : IntArrayRef(), groups);
  if (output_mask[0]) {
    grad_input = empty(input.sizes(), input.scalar_type(), input.device().index(), format);
    if (transposed) launch_convolution(grad_input, grad_output, weight, Tensor(), stride, padding, dilation, groups);
    else transposed_convolution(grad_input, grad_output, weight, Tensor(), stride, padding, dilation, groups);
  }
  if (output_mask[1]) {
    const Tensor &image = transposed ? grad_output : input, &result = transposed ? input : grad_output;
    grad_weight = weight_gradient(image, result, weight, stride, padding, dilation, groups, format);
  }
  if (output_mask[2]) {
    DimVector dims{0};
    for (int64_t d = 2; d < grad_output.dim(); ++d) dims.push_back(d);
    grad_bias = at::sum(grad_output, dims);
  }
  return {grad_input, grad_weight, grad_bias};
}

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

namespace {

constexpr const char* kName = "int_convolution";

DimVector per_dimension(const char* name, IntArrayRef values, int64_t spatial, int64_t least) {
  TORCH_CHECK(static_cast<int64_t>(values.size()) == spatial, kName, ": expected ", spatial, " values of ", name,
              ", got ", values);
  for (const int64_t value : values)
    TORCH_CHECK(value >= least, kName, ": expected ", name, " of at least ", least, ", got ", values);
  return DimVector(values);
}

// input [n, ci, *i], weight as of at::convolution, bias: int32 [co], outside: one integer
Tensor int_convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                       const std::optional<Tensor>& outside, IntArrayRef stride, IntArrayRef padding,
                       IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  check_devices(kName, input, weight, bias, outside);
  const int64_t spatial = input.dim() - 2;
  TORCH_CHECK(spatial >= 1 && spatial <= 3 && weight.dim() == input.dim(), kName,
              ": expected an input and a weight of 3 to 5 dimensions, got ", input.sizes(), " and ", weight.sizes());
  TORCH_CHECK(input.scalar_type() == at::kChar && weight.scalar_type() == at::kChar, kName,
              ": expected two int8 tensors, got ", input.scalar_type(), " and ", weight.scalar_type());
  const int64_t channels = transposed ? weight.size(0) : weight.size(1) * groups;
  TORCH_CHECK(groups > 0 && weight.size(0) % groups == 0 && input.size(1) == channels, kName, ": an input of ",
              input.size(1), " channels does not fit a weight of the sizes ", weight.sizes(), " in ", groups,
              " groups");
  const int64_t out_channels = transposed ? weight.size(1) * groups : weight.size(0);
  TORCH_CHECK(!bias || (bias->scalar_type() == at::kInt && bias->dim() == 1 && bias->size(0) == out_channels), kName,
              ": expected an int32 bias of the size ", out_channels, ", got ", bias->sizes(), " of ",
              bias->scalar_type());
  TORCH_CHECK(!outside || (outside->numel() == 1 && !at::isFloatingType(outside->scalar_type())), kName,
              ": expected one integer for `outside`, got ", outside->sizes(), " of ", outside->scalar_type());
  TORCH_CHECK(!outside || !transposed, kName, ": a transposed convolution takes no `outside`; pass None");
  const DimVector steps = per_dimension("stride", stride, spatial, 1);
  const DimVector border = per_dimension("padding", padding, spatial, 0);
  const DimVector distances = per_dimension("dilation", dilation, spatial, 1);
  if (transposed) {
    const auto sizes = at::native::conv_input_size(input.sizes(), weight.sizes(), border,
                                                   per_dimension("output_padding", output_padding, spatial, 0), steps,
                                                   distances, groups);
    Tensor out = empty(sizes, at::kInt, input.device().index(), MemoryFormat::Contiguous);
    transposed_convolution(out, input, weight, bias.value_or(Tensor()), steps, border, distances, groups);
    return out;
  }
  for (int64_t d = 0; d < spatial; ++d)
    TORCH_CHECK(input.size(2 + d) + 2 * border[d] > distances[d] * (weight.size(2 + d) - 1), kName,
                ": a weight of the sizes ", weight.sizes(), " is larger than the padded input ", input.sizes());
  const auto sizes = at::native::conv_output_size(input.sizes(), weight.sizes(), border, steps, distances);
  Tensor out = empty(sizes, at::kInt, input.device().index(), MemoryFormat::Contiguous);
  launch_convolution(out, input, weight, bias.value_or(Tensor()), steps, border, distances, groups,
                     outside ? outside->reshape({}) : Tensor());
  return out;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(atalla, m) {
  m.def(
      "int_convolution(Tensor input, Tensor weight, Tensor? bias, Tensor? outside, int[] stride, int[] padding, "
      "int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
      {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(atalla, PrivateUse1, m) { m.impl("int_convolution", TORCH_FN(int_convolution)); }

}  // namespace atalla::aten
