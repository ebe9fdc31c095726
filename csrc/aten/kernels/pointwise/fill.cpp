// SPDX-License-Identifier: BSD-3-Clause
#include "aten/dispatch/emulated_dtypes.h"
#include "aten/kernels/copy/copy_foreign.h"
#include "aten/kernels/pointwise/scalar_check.h"

namespace atalla::aten {

namespace {

const Kernel kFill("fill");

Tensor& fill_scalar(Tensor& self, const Scalar& value) {
  if (self.numel() == 0) return self;
  if (!on_chip(self.scalar_type()) && bits_dtype(self.scalar_type())) {
    Tensor same = self.view(*bits_dtype(self.scalar_type()));
    fill_scalar(same, emulated_bits(value, self.scalar_type()));
    return self;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(on_chip(self.scalar_type()), "fill_ of dtype ", self.scalar_type(),
                              " is not supported on the atalla device");
  ScalarType dtype = self.scalar_type();
  check_scalar(value, dtype);
  const ScalarType immediate_dtype = c10::isComplexType(dtype) ? c10::kComplexDouble : wide_dtype(value);
  if (self.is_non_overlapping_and_dense()) {
    LaunchBuilder(kFill, dtype)
        .output_elements(self.mutable_data_ptr(), dtype, self.numel())
        .immediate(value, immediate_dtype)
        .launch(self.device());
    return self;
  }
  // Elements that share memory get one value, so that they are allowed.
  auto iterator = TensorIteratorConfig()
                      .set_check_mem_overlap(false)
                      .add_output(self)
                      .check_all_same_dtype(false)
                      .resize_outputs(false)
                      .build();
  for_each_part(iterator, [&](TensorIteratorBase& part) {
    LaunchBuilder(kFill, dtype).iterator_operands(part).immediate(value, immediate_dtype).launch(self.device());
  });
  return self;
}

Tensor& fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  if (value.device() != self.device() || at::has_internal_overlap(self) == at::MemOverlap::Yes)
    return fill_scalar(self, value.item());
  return self.copy_(value.expand(self.sizes()));
}

Tensor& zero(Tensor& self) { return fill_scalar(self, Scalar(static_cast<int64_t>(0))); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fill_.Scalar", TORCH_FN(fill_scalar));
  m.impl("fill_.Tensor", TORCH_FN(fill_tensor));
  m.impl("zero_", TORCH_FN(zero));
}

}  // namespace
}  // namespace atalla::aten
