// SPDX-License-Identifier: BSD-3-Clause
//
// out= forms of ops whose functional forms upstream composes of others.
#include <ATen/native/Resize.h>
#include <ATen/ops/addr.h>
#include <ATen/ops/mvlgamma.h>

#include "aten/launch/launch.h"

namespace atalla::aten {

namespace {

at::Tensor& deliver(const char* name, const at::Tensor& result, c10::ScalarType named, at::Tensor& out) {
  TORCH_CHECK(at::canCast(result.scalar_type(), out.scalar_type()), name, "result type ", named,
              " can't be cast to the desired output type ", out.scalar_type());
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace

at::Tensor& addr_out(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                     const at::Scalar& alpha, at::Tensor& out) {
  const at::Tensor result = at::addr(self, vec1, vec2, beta, alpha);
  return deliver("", result, result.scalar_type(), out);
}

// Upstream's message names the dtype of the input.
at::Tensor& mvlgamma_out(const at::Tensor& self, int64_t p, at::Tensor& out) {
  return deliver("mvlgamma: ", at::mvlgamma(self, p), self.scalar_type(), out);
}

}  // namespace atalla::aten
