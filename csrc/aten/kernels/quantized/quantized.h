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
// Throws an error that names the op if `q` is quantized per channel; gives it back.
const Tensor& check_per_tensor(const char* op, const Tensor& q);

// The integers as real numbers, which hold each of them: float32, for torch.qint32 float64.
Tensor real_integers(const Tensor& quantized);
// The same less the zero point: the values as multiples of the scale.
Tensor steps_of(const Tensor& quantized);
// Real numbers that are integers, as a tensor of the scale and the zero point of `like`.
Tensor quantized_integers(const Tensor& real, const Tensor& like);
// Multiples of the scale of `like`, rounded to even.
Tensor quantized_steps(const Tensor& steps, const Tensor& like);

// Real values, quantized with the scale and the zero point of `like`.
Tensor quantized_as(const Tensor& values, const Tensor& like);
// The same into an out= tensor, which keeps its scale and zero point.
Tensor& quantize_into(const Tensor& values, Tensor& out);
// The integers and the quantization parameters of `result` into an out= tensor.
Tensor& quantized_result(const Tensor& result, Tensor& out);

}  // namespace atalla::aten
