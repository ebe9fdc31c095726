// SPDX-License-Identifier: BSD-3-Clause
//
// Complex tensors made of real ones, and conjugates. A complex tensor is two interleaved real ones; what goes to its
// parts is written through views of them.

#include "aten/dispatch/torch_version.h"
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// `widened`: the parts may be float16 where the result is a pair of float32, which is rounded afterwards.
void check_parts(const Tensor& first, const Tensor& second, const Tensor& out, bool half, bool widened = false) {
  auto is_real = [half](const Tensor& t) {
    const ScalarType d = t.scalar_type();
    return d == at::kFloat || d == at::kDouble || (half && d == at::kHalf);
  };
  TORCH_CHECK(is_real(first) && is_real(second), "Expected both inputs to be Half, Float or Double tensors but got ",
              first.scalar_type(), " and ", second.scalar_type());
  TORCH_CHECK(first.scalar_type() == second.scalar_type(), "Expected object of scalar type ", first.scalar_type(),
              " but got scalar type ", second.scalar_type(), " for second argument");
  const bool is_wider = widened && first.scalar_type() == at::kHalf && out.scalar_type() == at::kComplexFloat;
  TORCH_CHECK(is_wider || out.scalar_type() == c10::toComplexType(first.scalar_type()),
              "Expected object of scalar type ", c10::toComplexType(first.scalar_type()), " but got scalar type ",
              out.scalar_type(), " for argument 'out'");
}

// Real and imaginary parts of out, which gets the broadcast shape and the strides of a pointwise op.
std::pair<Tensor, Tensor> parts(const Tensor& first, const Tensor& second, Tensor& out) {
  TensorIteratorConfig()
      .add_output(out)
      .add_const_input(first)
      .add_const_input(second)
      .check_all_same_dtype(false)
      .build();
  const Tensor both = at::view_as_real(out);
  return {both.select(-1, 0), both.select(-1, 1)};
}

Tensor& complex_out(const Tensor& real, const Tensor& imag, Tensor& out) {
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

Tensor& polar_out(const Tensor& abs, const Tensor& angle, Tensor& out) {
  check_parts(abs, angle, out, kPolarTakesHalf, kPolarTakesHalf);
  auto [re, im] = parts(abs, angle, out);
  at::mul_out(re, abs, at::cos(angle));
  at::mul_out(im, abs, at::sin(angle));
  return out;
}

Tensor& conj_physical_out(const PointwiseKernel& kernel, const Tensor& self, Tensor& out) {
  auto iterator = unary_iterator(out, self);
  if (!launch_pointwise(iterator, kernel)) out.copy_(self);
  return out;
}

namespace {

// Upstream's function calls a stub of the CPU.
Tensor& conj_physical_inplace(Tensor& self) { return self.is_complex() ? at::conj_physical_out(self, self) : self; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("conj_physical_", TORCH_FN(conj_physical_inplace)); }

}  // namespace
}  // namespace atalla::aten
