// SPDX-License-Identifier: BSD-3-Clause
//
// `atalla::int_convolution`: a convolution of int8 tensors, whose sums are int32.

#include <ATen/native/ConvUtils.h>
#include <c10/core/DeviceGuard.h>

#include "aten/kernels/matrix/convolution.h"

namespace atalla::aten {

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
