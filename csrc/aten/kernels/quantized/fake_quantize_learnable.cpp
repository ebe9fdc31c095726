// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of fake quantization whose scale and zero point are learned (Learned Step Size Quantization,
// arXiv:1902.08153): of an element, of its share in the scale, and of its share in the zero point.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/quantized/FakeQuantAffine.h>

#include "aten/kernels/pointwise/pointwise.h"

namespace atalla::aten {

namespace {

constexpr uint32_t kFloat32 = 1u << 6;
const PointwiseKernel kGradient{"pointwise.fake_quantize_learnable_gradient", kFloat32, 4};
const PointwiseKernel kZeroPoint{"pointwise.fake_quantize_zero_point_gradient", kFloat32, 4};

void launch_gradient(std::initializer_list<Tensor> outputs, const TensorIterator& upstream, const Tensor& scale,
                     const Tensor& zero_point, const PointwiseKernel& kernel, int64_t quant_min, int64_t quant_max,
                     double grad_factor) {
  TensorIteratorConfig config;
  config.check_all_same_dtype(false);
  for (const Tensor& t : outputs) config.add_owned_output(t);
  for (const Tensor& t : {upstream.tensor(3), upstream.tensor(4), scale, zero_point}) config.add_owned_const_input(t);
  auto iterator = config.build();
  run_pointwise(iterator, kernel, quant_min, quant_max, grad_factor);
}

// The operands of upstream's iterator: gradients of the input, the scale and the zero point; input, gradient.
void learned_gradients(const TensorIterator& upstream, const Tensor& scale, const Tensor& zero_point, int64_t quant_min,
                       int64_t quant_max, double grad_factor) {
  launch_gradient({upstream.tensor(0), upstream.tensor(1)}, upstream, scale, zero_point, kGradient, quant_min,
                  quant_max, grad_factor);
  launch_gradient({upstream.tensor(2)}, upstream, scale, zero_point, kZeroPoint, quant_min, quant_max, grad_factor);
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
