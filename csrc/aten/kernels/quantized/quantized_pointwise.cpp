// SPDX-License-Identifier: BSD-3-Clause
//
// Functions of the elements of quantized tensors. They are computed of the real values in float32
// and quantized again, as PyTorch's kernels for the CPU do; clamping needs only the integers.
#include "aten/kernels/quantized/quantized.h"

namespace atalla::aten {

namespace {

// The scale of a function's values: they span `width`, and begin at 0 or are symmetric about it.
Tensor quantized_span(const Tensor& values, ScalarType dtype, double width, int64_t zero_point) {
  const double scale = width * (dtype == at::kQInt32 ? 0x1p-32 : 0x1p-8);
  return at::quantize_per_tensor(values, scale, zero_point, dtype);
}

}  // namespace

Tensor quantized_sigmoid(const Tensor& self) {
  const ScalarType dtype = self.scalar_type();
  return quantized_span(self.dequantize().sigmoid(), dtype, 1, dtype == at::kQInt8 ? -128 : 0);
}

Tensor quantized_hardsigmoid(const Tensor& self) {
  const ScalarType dtype = self.scalar_type();
  return quantized_span(at::hardsigmoid(self.dequantize()), dtype, 1, dtype == at::kQInt8 ? -128 : 0);
}

Tensor quantized_tanh(const Tensor& self) {
  const ScalarType dtype = self.scalar_type();
  return quantized_span(self.dequantize().tanh(), dtype, 2, dtype == at::kQUInt8 ? 128 : 0);
}

Tensor quantized_gelu(const Tensor& self, std::string_view approximate) {
  // The CPU keeps the scale as a float.
  return at::quantize_per_tensor(at::gelu(self.dequantize(), approximate), static_cast<float>(self.q_scale()),
                                 self.q_zero_point(), self.scalar_type());
}

Tensor quantized_clamp(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  check_per_tensor("clamp", self);
  TORCH_CHECK(min || max, "Both min and max is None");
  const auto integer = [&](const Scalar& bound) {
    return integers_of(quantized_as(at::scalar_tensor(bound, self.options().dtype(at::kFloat)), self));
  };
  Tensor integers = integers_of(self);
  if (min) integers = at::maximum(integers, integer(*min));
  if (max) integers = at::minimum(integers, integer(*max));
  return quantized_over(integers, self);
}

Tensor quantized_batch_norm(const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                            const Tensor& mean, const Tensor& var, double eps, double output_scale,
                            int64_t output_zero_point) {
  check_per_tensor("quantized_batch_norm", input);
  TORCH_CHECK(input.dim() >= 2, "quantized_batch_norm: expected an input of at least 2 dimensions, got ",
              input.sizes());
  DimVector shape(input.dim(), 1);
  shape[1] = input.size(1);
  Tensor factor = var.add(eps).sqrt().reciprocal();
  if (weight && weight->defined()) factor = factor.mul(*weight);
  Tensor offset = mean.mul(factor).neg();
  if (bias && bias->defined()) offset = offset.add(*bias);
  // In steps of the output.
  factor = factor.mul(input.q_scale() / output_scale).view(shape);
  offset = offset.div(output_scale).view(shape);
  const Tensor like = at::_empty_affine_quantized({0}, input.options(), output_scale, output_zero_point);
  return quantized_steps(steps_of(input).mul(factor).add(offset), like);
}

}  // namespace atalla::aten
