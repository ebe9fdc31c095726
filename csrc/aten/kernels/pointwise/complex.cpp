// SPDX-License-Identifier: BSD-3-Clause
//
// Complex tensors made of real ones, and conjugates. A complex tensor is two interleaved real ones; what goes to its
// parts is written through views of them.
#include <ATen/TensorIterator.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/view_as_real.h>

#include "aten/launch/launch.h"

namespace atalla::aten {

namespace {

const PointwiseKernel kConj{"pointwise.conj_physical", 1u << 9 | 1u << 10, 1};

void check_parts(const at::Tensor& first, const at::Tensor& second, const at::Tensor& out, bool half) {
  auto is_real = [half](const at::Tensor& t) {
    const c10::ScalarType d = t.scalar_type();
    return d == at::kFloat || d == at::kDouble || (half && d == at::kHalf);
  };
  TORCH_CHECK(is_real(first) && is_real(second), "Expected both inputs to be Half, Float or Double tensors but got ",
              first.scalar_type(), " and ", second.scalar_type());
  TORCH_CHECK(first.scalar_type() == second.scalar_type(), "Expected object of scalar type ", first.scalar_type(),
              " but got scalar type ", second.scalar_type(), " for second argument");
  TORCH_CHECK(out.scalar_type() == c10::toComplexType(first.scalar_type()), "Expected object of scalar type ",
              c10::toComplexType(first.scalar_type()), " but got scalar type ", out.scalar_type(),
              " for argument 'out'");
}

// Real and imaginary parts of out, which gets the broadcast shape and the strides of a pointwise op.
std::pair<at::Tensor, at::Tensor> parts(const at::Tensor& first, const at::Tensor& second, at::Tensor& out) {
  at::TensorIteratorConfig()
      .add_output(out)
      .add_const_input(first)
      .add_const_input(second)
      .check_all_same_dtype(false)
      .build();
  const at::Tensor both = at::view_as_real(out);
  return {both.select(-1, 0), both.select(-1, 1)};
}

at::Tensor& complex_out(const at::Tensor& real, const at::Tensor& imag, at::Tensor& out) {
  check_devices("complex", real, imag, out);
  TORCH_CHECK(out.is_privateuseone(), "Expected all tensors to be on the same device, but got out on ", out.device(),
              ", different from the inputs of complex");
  check_parts(real, imag, out, true);
  auto [re, im] = parts(real, imag, out);
  re.copy_(real.expand(re.sizes()));
  im.copy_(imag.expand(im.sizes()));
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("complex.out", TORCH_FN(complex_out)); }

}  // namespace

at::Tensor& polar_out(const at::Tensor& abs, const at::Tensor& angle, at::Tensor& out) {
  check_parts(abs, angle, out, false);
  auto [re, im] = parts(abs, angle, out);
  at::mul_out(re, abs, at::cos(angle));
  at::mul_out(im, abs, at::sin(angle));
  return out;
}

at::Tensor& conj_physical_out(const at::Tensor& self, at::Tensor& out) {
  auto iterator = unary_iterator(out, self);
  if (!launch_pointwise(iterator, kConj)) out.copy_(self);
  return out;
}

}  // namespace atalla::aten
