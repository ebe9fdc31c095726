// SPDX-License-Identifier: BSD-3-Clause
//
// Pointwise ops whose arguments need a decision before the launch.
#include <ATen/ScalarOps.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/pow.h>

#include <limits>

#include "aten/kernels/pointwise/pointwise.h"

namespace atalla::aten {

namespace {

const PointwiseKernel kClamp{"pointwise.clamp_tensor", kRealDtypes, 3};
const PointwiseKernel kMaximum{"pointwise.maximum", kRealDtypes, 2};
const PointwiseKernel kMinimum{"pointwise.minimum", kRealDtypes, 2};
const PointwiseKernel kNanToNum{"pointwise.nan_to_num", kFloatingDtypes, 1};
const PointwiseKernel kFrexp{"pointwise.frexp", kFloatingDtypes, 1};

// The largest finite number of a dtype.
double largest(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Half:
      return std::numeric_limits<c10::Half>::max();
    case c10::ScalarType::BFloat16:
      return std::numeric_limits<c10::BFloat16>::max();
    case c10::ScalarType::Float:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

}  // namespace

// The number becomes an immediate of the launch.
void pow_scalar(const at::Scalar& self, const at::Tensor& exponent, const at::Tensor& out) {
  at::Tensor result = out;
  if (self.equal(1.0)) result.fill_(1);
  else at::pow_out(result, at::native::wrapped_scalar_tensor(self), exponent);
}

at::Tensor lshift_scalar(const at::Tensor& self, const at::Scalar& other) {
  return at::bitwise_left_shift(self, other);
}
at::Tensor& lshift_scalar_inplace(at::Tensor& self, const at::Scalar& other) { return self.bitwise_left_shift_(other); }
at::Tensor rshift_scalar(const at::Tensor& self, const at::Scalar& other) {
  return at::bitwise_right_shift(self, other);
}
at::Tensor& rshift_scalar_inplace(at::Tensor& self, const at::Scalar& other) {
  return self.bitwise_right_shift_(other);
}

void clamp_tensor(at::TensorIteratorBase& iterator, const at::Tensor& self, at::OptionalTensorRef min,
                  at::OptionalTensorRef max, const at::Tensor& out) {
  run_pointwise(iterator, min.has_value() && max.has_value() ? kClamp : min.has_value() ? kMaximum : kMinimum);
}

at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                           std::optional<double> neginf, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: dtype of out: ", out.scalar_type(),
              " should be same as input: ", self.scalar_type());
  if (c10::isIntegralType(self.scalar_type(), /*includeBool=*/true)) {
    at::native::resize_output(out, self.sizes());
    return out.copy_(self);
  }
  auto iterator = unary_iterator(out, self);
  const double limit = largest(self.scalar_type());
  run_pointwise(iterator, kNanToNum, nan.value_or(0), posinf.value_or(limit), neginf.value_or(-limit));
  return out;
}

std::tuple<at::Tensor&, at::Tensor&> frexp_out(const at::Tensor& self, at::Tensor& mantissa, at::Tensor& exponent) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "torch.frexp() only supports floating-point dtypes");
  TORCH_CHECK(mantissa.dtype() == self.dtype(), "torch.frexp() expects mantissa to have dtype ", self.dtype(),
              " but got ", mantissa.dtype());
  TORCH_CHECK(exponent.dtype() == at::kInt, "torch.frexp() expects exponent to have int dtype but got ",
              exponent.dtype());
  auto iterator = at::TensorIteratorConfig()
                      .add_output(mantissa)
                      .add_output(exponent)
                      .add_const_input(self)
                      .check_all_same_dtype(false)
                      .set_check_mem_overlap(true)
                      .build();
  run_pointwise(iterator, kFrexp);
  return {mantissa, exponent};
}

}  // namespace atalla::aten
