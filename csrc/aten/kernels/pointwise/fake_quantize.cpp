// SPDX-License-Identifier: BSD-3-Clause
//
// Fake quantization: values rounded to those that an integer with scale and zero point represents, and a mask of those
// that its range contains. The gradient is upstream's: the mask.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/quantized/FakeQuantAffine.h>

#include "aten/kernels/pointwise/pointwise.h"

namespace atalla::aten {

namespace {

void check_range(int64_t quant_min, int64_t quant_max) {
  TORCH_CHECK(quant_min <= quant_max, "`quant_min` should be less than or equal to `quant_max`, got ", quant_min,
              " and ", quant_max);
}

std::tuple<Tensor, Tensor> results(const Tensor& self) {
  return {at::empty_like(self), at::empty_like(self, self.options().dtype(at::kBool))};
}

// scale, zero_point and enabled have the shape of `self`, or broadcast to it.
std::tuple<Tensor, Tensor> quantize(const Tensor& self, const Tensor& scale, const Tensor& zero_point,
                                    const Tensor& enabled, int64_t quant_min, int64_t quant_max) {
  auto [out, mask] = results(self);
  auto iterator = mixed_iterator({out, mask}, self, scale, zero_point, enabled);
  // Zero points that are integers are added to the rounded quotient; others are rounded with it.
  const bool whole = !at::isFloatingType(zero_point.scalar_type());
  run_pointwise(iterator, kPointwiseFakeQuantizePerChannelAffineCachemask, quant_min, quant_max, whole);
  return {out, mask};
}

}  // namespace

std::tuple<Tensor, Tensor> fake_quantize_per_tensor(const Tensor& self, double scale, int64_t zero_point,
                                                    int64_t quant_min, int64_t quant_max) {
  check_range(quant_min, quant_max);
  TORCH_CHECK(zero_point >= quant_min && zero_point <= quant_max,
              "`zero_point` must be between `quant_min` and `quant_max`.");
  auto [out, mask] = results(self);
  auto iterator = mixed_iterator({out, mask}, self);
  const PointwiseKernel& kernel = kPointwiseFakeQuantizePerTensorAffineCachemask;
  // In the precision of `self`, which for halves is float32.
  const float rounded = static_cast<float>(scale);
  if (self.scalar_type() == at::kDouble)
    run_pointwise(iterator, kernel, scale, 1 / scale, zero_point, quant_min, quant_max);
  else run_pointwise(iterator, kernel, double{rounded}, double{1.0f / rounded}, zero_point, quant_min, quant_max);
  return {out, mask};
}

std::tuple<Tensor, Tensor> fake_quantize_per_tensor_tensors(const Tensor& self, const Tensor& scale,
                                                            const Tensor& zero_point, const Tensor& enabled,
                                                            int64_t quant_min, int64_t quant_max) {
  check_range(quant_min, quant_max);
  const auto one = [](const char* name, const Tensor& t) {
    TORCH_CHECK(t.numel() == 1, "expected ", name, " to have one element, got ", t.sizes());
    return t.reshape({});
  };
  return quantize(self, one("scale", scale), one("zero_point", zero_point), one("fake_quant_enabled", enabled),
                  quant_min, quant_max);
}

std::tuple<Tensor, Tensor> fake_quantize_per_channel(const Tensor& self, const Tensor& scale, const Tensor& zero_point,
                                                     int64_t axis, int64_t quant_min, int64_t quant_max) {
  check_range(quant_min, quant_max);
  TORCH_CHECK(scale.scalar_type() == at::kFloat || scale.scalar_type() == at::kBFloat16,
              "Scale must be Float or BFloat16, found ", scale.scalar_type());
  TORCH_CHECK(axis >= 0 && axis < self.dim(), "`axis` must be between 0 and number of dimensions of input");
  TORCH_CHECK(scale.dim() == 1 && zero_point.dim() == 1, "scale and zero point should be 1-D tensors");
  TORCH_CHECK(scale.numel() == zero_point.numel(), "scale and zero-point need to have the same dimensions");
  TORCH_CHECK(scale.numel() == self.size(axis),
              "dimensions of scale and zero-point are not consistent with input "
              "tensor");
  DimVector shape(self.dim(), 1);
  shape[axis] = self.size(axis);
  const Tensor enabled = at::scalar_tensor(1, at::TensorOptions().dtype(at::kBool));
  return quantize(self, scale.view(shape), zero_point.view(shape), enabled, quant_min, quant_max);
}

namespace {

// The operands of upstream's iterator: gradients of the input, the scale and the zero point; input, gradient.
void learned_gradients(const TensorIterator& upstream, const Tensor& scale, const Tensor& zero_point, int64_t quant_min,
                       int64_t quant_max, double grad_factor) {
  const auto launch_gradient = [&](std::initializer_list<Tensor> outputs, const PointwiseKernel& kernel) {
    auto iterator = mixed_iterator(outputs, upstream.tensor(3), upstream.tensor(4), scale, zero_point);
    run_pointwise(iterator, kernel, quant_min, quant_max, grad_factor);
  };
  launch_gradient({upstream.tensor(0), upstream.tensor(1)}, kPointwiseFakeQuantizeLearnableGradient);
  launch_gradient({upstream.tensor(2)}, kPointwiseFakeQuantizeZeroPointGradient);
}

void by_tensor(TensorIterator& upstream, float scale, float, int64_t zero_point, int64_t quant_min, int64_t quant_max,
               float grad_factor) {
  const TensorOptions options = upstream.tensor(3).options();
  learned_gradients(upstream, at::full({}, scale, options), at::full({}, zero_point, options), quant_min, quant_max,
                    grad_factor);
}

void by_channel(TensorIterator& upstream, int64_t quant_min, int64_t quant_max, float grad_factor) {
  learned_gradients(upstream, upstream.tensor(5), upstream.tensor(6), quant_min, quant_max, grad_factor);
}

}  // namespace

}  // namespace atalla::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(fake_quant_grad_learnable_tensor_stub, &atalla::aten::by_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(fake_quant_grad_learnable_channel_stub, &atalla::aten::by_channel)
}  // namespace at::native
