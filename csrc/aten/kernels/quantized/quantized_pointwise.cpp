// SPDX-License-Identifier: BSD-3-Clause
//
// Functions and comparisons of the elements of quantized tensors. Functions are computed of the real values in float32
// and quantized again, as PyTorch's kernels for the CPU do; clamping needs only the integers.
#include "aten/kernels/quantized/quantized.h"

namespace atalla::aten {

namespace {

// The scale of a function's values: they span `width`, and begin at 0 or are symmetric about it.
Tensor quantized_span(const Tensor& values, ScalarType dtype, double width, int64_t zero_point) {
  const double scale = width * (dtype == at::kQInt32 ? 0x1p-32 : 0x1p-8);
  return at::quantize_per_tensor(values, scale, zero_point, dtype);
}

Tensor clamped(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
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

// PyTorch compares the real values.
Tensor real_values(const Tensor& t) { return t.is_quantized() ? t.dequantize() : t; }

Tensor leaky(const Tensor& self, const Scalar& slope) { return at::leaky_relu(self.dequantize(), slope); }

}  // namespace

Tensor quantized_sigmoid(const Tensor& self) {
  const ScalarType dtype = self.scalar_type();
  return quantized_span(self.dequantize().sigmoid(), dtype, 1, dtype == at::kQInt8 ? -128 : 0);
}

Tensor quantized_hardsigmoid(const Tensor& self) {
  const ScalarType dtype = self.scalar_type();
  return quantized_span(at::hardsigmoid(self.dequantize()), dtype, 1, dtype == at::kQInt8 ? -128 : 0);
}
Tensor& quantized_hardsigmoid_out(const Tensor& self, Tensor& out) {
  return quantized_result(quantized_hardsigmoid(self), out);
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
Tensor& quantized_gelu_(Tensor& self, std::string_view approximate) {
  return quantized_result(quantized_gelu(self, approximate), self);
}

Tensor quantized_leaky_relu(const Tensor& self, const Scalar& slope) { return quantized_as(leaky(self, slope), self); }
Tensor& quantized_leaky_relu_(Tensor& self, const Scalar& slope) { return quantize_into(leaky(self, slope), self); }
Tensor& quantized_leaky_relu_out(const Tensor& self, const Scalar& slope, Tensor& out) {
  return quantize_into(leaky(self, slope), out);
}

Tensor quantized_prelu(const Tensor& self, const Tensor& weight) {
  return quantized_as(at::_prelu_kernel(self.dequantize(), weight), self);
}

Tensor quantized_threshold(const Tensor& self, const Scalar& threshold, const Scalar& value) {
  return quantized_as(at::threshold(self.dequantize(), threshold, value), self);
}

Tensor quantized_clamp(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  return clamped(self, min, max);
}
Tensor quantized_hardtanh(const Tensor& self, const Scalar& min, const Scalar& max) { return clamped(self, min, max); }
Tensor& quantized_hardtanh_(Tensor& self, const Scalar& min, const Scalar& max) {
  return quantized_result(clamped(self, min, max), self);
}
Tensor& quantized_hardtanh_out(const Tensor& self, const Scalar& min, const Scalar& max, Tensor& out) {
  return quantized_result(clamped(self, min, max), out);
}

#define ATALLA_QUANTIZED_COMPARISON(name)                                                       \
  Tensor quantized_##name(const Tensor& self, const Tensor& other) {                            \
    return at::name(real_values(self), real_values(other));                                     \
  }                                                                                             \
  Tensor quantized_##name##_scalar(const Tensor& self, const Scalar& other) {                   \
    return at::name(real_values(self), other);                                                  \
  }                                                                                             \
  Tensor& quantized_##name##_out(const Tensor& self, const Tensor& other, Tensor& out) {        \
    return at::name##_out(out, real_values(self), real_values(other));                          \
  }                                                                                             \
  Tensor& quantized_##name##_scalar_out(const Tensor& self, const Scalar& other, Tensor& out) { \
    return at::name##_out(out, real_values(self), other);                                       \
  }
ATALLA_QUANTIZED_COMPARISON(eq)
ATALLA_QUANTIZED_COMPARISON(ne)
ATALLA_QUANTIZED_COMPARISON(lt)
ATALLA_QUANTIZED_COMPARISON(le)
ATALLA_QUANTIZED_COMPARISON(gt)
ATALLA_QUANTIZED_COMPARISON(ge)
#undef ATALLA_QUANTIZED_COMPARISON

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
