// SPDX-License-Identifier: BSD-3-Clause
//
// Pointwise ops whose arguments need a decision before the launch.

#include <ATen/Dispatch.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/view_as_real.h>

#include <limits>

#include "aten/kernels/pointwise/pointwise.h"
#include "aten/kernels/pointwise/scalar_check.h"

namespace atalla::aten {

namespace {

const PointwiseKernel kMaximum{"pointwise.maximum", kRealDtypes, 2};
const PointwiseKernel kMinimum{"pointwise.minimum", kRealDtypes, 2};
const PointwiseKernel kAddRelu{"pointwise.add_relu", kRealDtypes, 2};
const PointwiseKernel kNanToNum{"pointwise.nan_to_num", kFloatingDtypes, 1};
const PointwiseKernel kFrexp{"pointwise.frexp", kFloatingDtypes, 1};

void add_relu(TensorIterator& iterator, const Scalar& alpha, const Scalar& least, const Scalar& largest) {
  run_pointwise(iterator, kAddRelu, alpha, least, largest);
}

void nan_to_num(TensorIteratorBase& iterator, std::optional<double> nan, std::optional<double> posinf,
                std::optional<double> neginf) {
  if (c10::isComplexType(iterator.common_dtype())) {  // each part by itself
    Tensor parts = at::view_as_real(iterator.output());
    at::nan_to_num_out(parts, at::view_as_real(iterator.input()), nan, posinf, neginf);
    return;
  }
  const auto dtype = iterator.common_dtype();
  const double limit = AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "nan_to_num", [] {
    return static_cast<double>(std::numeric_limits<scalar_t>::max());
  });
  run_pointwise(iterator, kNanToNum, nan.value_or(0), posinf.value_or(limit), neginf.value_or(-limit));
}

void frexp(TensorIteratorBase& iterator) { run_pointwise(iterator, kFrexp); }

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

void clamp_tensor(const PointwiseKernel& kernel, TensorIteratorBase& iterator, OptionalTensorRef min,
                  OptionalTensorRef max) {
  TORCH_CHECK_NOT_IMPLEMENTED(!min.has_value() || !max.has_value() || iterator.common_dtype() != at::kBool,
                              "\"clamp\" not implemented for 'Bool'");
  run_pointwise(iterator, min.has_value() && max.has_value() ? kernel : min.has_value() ? kMaximum : kMinimum);
}

}  // namespace atalla::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(add_clamp_stub, &atalla::aten::add_relu)
REGISTER_PRIVATEUSE1_DISPATCH(nan_to_num_stub, &atalla::aten::nan_to_num)
REGISTER_PRIVATEUSE1_DISPATCH(frexp_stub, &atalla::aten::frexp)
}  // namespace at::native
