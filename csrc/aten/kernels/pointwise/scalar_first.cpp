// SPDX-License-Identifier: BSD-3-Clause
//
// Binary ops whose first operand is a number: it becomes an immediate of the launch.
#include <ATen/ScalarOps.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/remainder.h>

#include "aten/launch/launch.h"

namespace atalla::aten {

void pow_scalar(const at::Scalar& self, const at::Tensor& exponent, const at::Tensor& out) {
  at::Tensor result = out;
  if (self.equal(1.0)) {
    result.fill_(1);
  } else {
    at::pow_out(result, at::native::wrapped_scalar_tensor(self), exponent);
  }
}

at::Tensor remainder_scalar(const at::Scalar& self, const at::Tensor& other) {
  return at::remainder(at::native::wrapped_scalar_tensor(self), other);
}

}  // namespace atalla::aten
