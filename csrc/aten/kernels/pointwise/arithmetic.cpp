// SPDX-License-Identifier: BSD-3-Clause
//
// Pointwise ops whose arguments need a decision before the launch, and out= forms of ops that upstream composes.
#include <ATen/Dispatch.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/addr_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/view_as_real.h>

#include <limits>

#include "aten/kernels/pointwise/pointwise.h"
#include "aten/kernels/pointwise/scalar_check.h"

namespace atalla::aten {

namespace {

void add_relu(TensorIterator& iterator, const Scalar& alpha, const Scalar& least, const Scalar& largest) {
  run_pointwise(iterator, kPointwiseAddRelu, alpha, least, largest);
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
  run_pointwise(iterator, kPointwiseNanToNum, nan.value_or(0), posinf.value_or(limit), neginf.value_or(-limit));
}

void frexp(TensorIteratorBase& iterator) { run_pointwise(iterator, kPointwiseFrexp); }

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
  const PointwiseKernel& one_sided = min.has_value() ? kPointwiseMaximum : kPointwiseMinimum;
  run_pointwise(iterator, min.has_value() && max.has_value() ? kernel : one_sided);
}

namespace {

Tensor& deliver(const char* name, const Tensor& result, ScalarType named, Tensor& out) {
  TORCH_CHECK(at::canCast(result.scalar_type(), out.scalar_type()), name, "result type ", named,
              " can't be cast to the desired output type ", out.scalar_type());
  return copy_result(result, out);
}

}  // namespace

// As upstream's kernels for the CPU and CUDA; the formula that other devices share checks neither.
void check_addr_scalar(ScalarType dtype, const Scalar& scalar, const char* name) {
  TORCH_CHECK(!scalar.isBoolean() || dtype == at::kBool, "Boolean ", name, " only supported for Boolean results.");
  TORCH_CHECK(at::isFloatingType(dtype) || at::isComplexType(dtype) || scalar.isIntegral(true),
              "For integral input tensors, argument ", name, " must not be a floating point number.");
}

Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta, const Scalar& alpha) {
  const ScalarType vectors = at::promoteTypes(vec1.scalar_type(), vec2.scalar_type());
  const ScalarType dtype = at::promoteTypes(self.scalar_type(), vectors);
  check_addr_scalar(dtype, beta, "beta");
  check_addr_scalar(dtype, alpha, "alpha");
  return at::compositeexplicitautograd::addr(self, vec1, vec2, beta, alpha);
}

Tensor& addr_out(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta, const Scalar& alpha,
                 Tensor& out) {
  for (const Tensor& input : {self, vec1, vec2}) at::assert_no_partial_overlap(out, input);
  const Tensor result = at::addr(self, vec1, vec2, beta, alpha);
  return deliver("", result, result.scalar_type(), out);
}

// Upstream's message names the dtype of the input.
Tensor& mvlgamma_out(const Tensor& self, int64_t p, Tensor& out) {
  return deliver("mvlgamma: ", at::mvlgamma(self, p), self.scalar_type(), out);
}

}  // namespace atalla::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(add_clamp_stub, &atalla::aten::add_relu)
REGISTER_PRIVATEUSE1_DISPATCH(nan_to_num_stub, &atalla::aten::nan_to_num)
REGISTER_PRIVATEUSE1_DISPATCH(frexp_stub, &atalla::aten::frexp)
}  // namespace at::native
