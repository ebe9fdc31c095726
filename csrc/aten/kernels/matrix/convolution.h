// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "aten/launch/launch.h"

namespace atalla::aten {

// Of the result and of both gradients, as on the CPU: channels last, if the input or the weight is. (Whether float16
// volumes are, depends on the CPU; here they are.) `output_padding` is that of a transposed convolution, else empty.
at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
                                    at::IntArrayRef output_padding, int64_t groups);

// One launch into `out`, whose spatial sizes need not be those that the input gives: what lies outside of it is 0.
void launch_convolution(const at::Tensor& out, const at::Tensor& input, const at::Tensor& weight,
                        const at::Tensor& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                        at::IntArrayRef dilation, int64_t groups);

// Into a tensor of `sizes`; the output padding is implied.
at::Tensor transposed_convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                  at::IntArrayRef sizes, at::IntArrayRef stride, at::IntArrayRef padding,
                                  at::IntArrayRef dilation, int64_t groups, at::MemoryFormat format);

}  // namespace atalla::aten
