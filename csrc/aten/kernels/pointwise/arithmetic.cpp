// SPDX-License-Identifier: BSD-3-Clause
//
// Pointwise ops whose arguments need a decision before the launch.

#include <ATen/Dispatch.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/ops/view_as_real.h>

#include <limits>

#include "aten/kernels/pointwise/pointwise.h"
#include "aten/kernels/pointwise/scalar_check.h"

namespace atalla::aten {

namespace {

const PointwiseKernel kClamp{"pointwise.clamp_tensor", kRealDtypes, 3};
const PointwiseKernel kMaximum{"pointwise.maximum", kRealDtypes, 2};
const PointwiseKernel kMinimum{"pointwise.minimum", kRealDtypes, 2};
const PointwiseKernel kNanToNum{"pointwise.nan_to_num", kFloatingDtypes, 1};
const PointwiseKernel kFrexp{"pointwise.frexp", kFloatingDtypes, 1};
const PointwiseKernel kAddRelu{"pointwise.add_relu", kRealDtypes, 2};

void add_relu(TensorIterator& iterator, const Scalar& alpha, const Scalar& least, const Scalar& largest) {
  run_pointwise(iterator, kAddRelu, alpha, least, largest);
}

}  // namespace

// For generated code: raises for complex numbers, and where a 16-bit float has no such number.
void check_fits(const std::optional<Scalar>& value, ScalarType dtype);
void check_fits(const std::optional<Scalar>& value, ScalarType dtype) {
  if (!value.has_value()) return;
  TORCH_CHECK(!value->isComplex(), "clamp is not supported for complex types");
  if (c10::isReducedFloatingType(dtype)) check_scalar(*value, dtype);
}

// The number becomes an immediate of the launch.
void pow_scalar(const Scalar& self, const Tensor& exponent, const Tensor& out) {
  Tensor result = out;
  if (self.equal(1.0)) result.fill_(1);
  else at::pow_out(result, at::native::wrapped_scalar_tensor(self), exponent);
}

Tensor lshift_scalar(const Tensor& self, const Scalar& other) { return at::bitwise_left_shift(self, other); }
Tensor& lshift_scalar_inplace(Tensor& self, const Scalar& other) { return self.bitwise_left_shift_(other); }
Tensor rshift_scalar(const Tensor& self, const Scalar& other) { return at::bitwise_right_shift(self, other); }
Tensor& rshift_scalar_inplace(Tensor& self, const Scalar& other) { return self.bitwise_right_shift_(other); }

void clamp_tensor(TensorIteratorBase& iterator, const Tensor& self, OptionalTensorRef min, OptionalTensorRef max,
                  const Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(!min.has_value() || !max.has_value() || iterator.common_dtype() != at::kBool,
                              "\"clamp\" not implemented for 'Bool'");
  run_pointwise(iterator, min.has_value() && max.has_value() ? kClamp : min.has_value() ? kMaximum : kMinimum);
}

Tensor& nan_to_num_out(const Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                       std::optional<double> neginf, Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: dtype of out: ", out.scalar_type(),
              " should be same as input: ", self.scalar_type());
  if (c10::isIntegralType(self.scalar_type(), /*includeBool=*/true)) {
    at::native::resize_output(out, self.sizes());
    return out.copy_(self);
  }
  if (self.is_complex()) {  // each part by itself
    at::native::resize_output(out, self.sizes());
    Tensor parts = at::view_as_real(out);
    nan_to_num_out(at::view_as_real(self), nan, posinf, neginf, parts);
    return out;
  }
  auto iterator = unary_iterator(out, self);
  const double limit = AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "nan_to_num", [] {
    return static_cast<double>(std::numeric_limits<scalar_t>::max());
  });
  run_pointwise(iterator, kNanToNum, nan.value_or(0), posinf.value_or(limit), neginf.value_or(-limit));
  return out;
}

std::tuple<Tensor&, Tensor&> frexp_out(const Tensor& self, Tensor& mantissa, Tensor& exponent) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "torch.frexp() only supports floating-point dtypes");
  TORCH_CHECK(mantissa.dtype() == self.dtype(), "torch.frexp() expects mantissa to have dtype ", self.dtype(),
              " but got ", mantissa.dtype());
  TORCH_CHECK(exponent.dtype() == at::kInt, "torch.frexp() expects exponent to have int dtype but got ",
              exponent.dtype());
  auto iterator = TensorIteratorConfig()
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

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(add_clamp_stub, &atalla::aten::add_relu)
}  // namespace at::native
