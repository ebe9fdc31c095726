// SPDX-License-Identifier: BSD-3-Clause
//
// out= forms of ops whose functional forms upstream composes of others.

#include <ATen/ops/addr_compositeexplicitautograd_dispatch.h>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

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
