// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of a convolution, which are convolutions themselves.

#include "aten/kernels/matrix/convolution.h"

namespace atalla::aten {

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

}  // namespace atalla::aten
