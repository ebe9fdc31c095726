// SPDX-License-Identifier: BSD-3-Clause
//
// Quantized tensors as the integers that they hold, and back.
#pragma once

#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

// A view of the integers of a quantized tensor, on its device. Throws for dtypes of less than 8 bits.
Tensor integers_of(const Tensor& quantized);
// A quantized tensor over the memory of `integers`, with the scale and the zero point of `like`.
Tensor quantized_over(const Tensor& integers, const Tensor& like);

}  // namespace atalla::aten
