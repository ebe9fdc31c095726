// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// Of the result and of both gradients, as on the CPU: channels last, if the input or the weight is. (Whether float16
// volumes are, depends on the CPU; here they are.) `output_padding` is that of a transposed convolution, else empty.
MemoryFormat convolution_format(const Tensor& input, const Tensor& weight, IntArrayRef stride,
                                IntArrayRef output_padding, int64_t groups);

// One launch into `out`, whose spatial sizes need not be those that the input gives: what lies outside of it is 0.
void launch_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups);

// Into a tensor of `sizes`; the output padding is implied.
Tensor transposed_convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef sizes,
                              IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups,
                              MemoryFormat format);

}  // namespace atalla::aten
