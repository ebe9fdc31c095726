// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// Of the result and of both gradients, as on the CPU: channels last, if the input or the weight is. (Whether float16
// volumes are, depends on the CPU; here they are.) `output_padding` is that of a transposed convolution, else empty.
MemoryFormat convolution_format(const Tensor& input, const Tensor& weight, IntArrayRef stride,
                                IntArrayRef output_padding, int64_t groups);

// One launch into `out`, whose spatial sizes need not be those that the input gives. What lies outside of the input
// counts as `outside` (a scalar, perhaps undefined: 0). The sums have the dtype of `out`.
void launch_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups,
                        const Tensor& outside = Tensor());

// Into `out`, from whose sizes the output padding follows.
void transposed_convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                            IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups);

}  // namespace atalla::aten
