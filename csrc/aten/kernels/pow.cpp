// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ScalarOps.h>
#include <ATen/ops/pow.h>

#include "aten/launch.h"

namespace atalla::aten {

// The base becomes an immediate of the launch.
void pow_scalar(const at::Scalar& self, const at::Tensor& exponent, const at::Tensor& out) {
  at::Tensor result = out;
  if (self.equal(1.0)) {
    result.fill_(1);
  } else {
    at::pow_out(result, at::native::wrapped_scalar_tensor(self), exponent);
  }
}

}  // namespace atalla::aten
