// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "aten/launch.h"

namespace atalla::aten {

// One launch into `out`, whose spatial sizes need not be those that the input gives: what lies outside of it is 0.
void launch_convolution(const at::Tensor& out, const at::Tensor& input, const at::Tensor& weight,
                        const at::Tensor& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                        at::IntArrayRef dilation, int64_t groups);

// Into a tensor of `sizes`; the output padding is implied.
at::Tensor transposed_convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                  at::IntArrayRef sizes, at::IntArrayRef stride, at::IntArrayRef padding,
                                  at::IntArrayRef dilation, int64_t groups);

}  // namespace atalla::aten
