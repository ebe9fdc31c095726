// SPDX-License-Identifier: BSD-3-Clause
#include "aten/dispatch/emulated_dtypes.h"
#include "aten/kernels/copy/copy_foreign.h"
#include "aten/kernels/pointwise/scalar_check.h"
#include "aten/launch/launch_recorder.h"

namespace atalla::aten {

namespace {

Tensor& fill_scalar(Tensor& self, const Scalar& given) {
  const ScalarType dtype = self.scalar_type();
  // As on the CPU, a single narrow float saturates, and several raise.
  const bool saturates = self.numel() == 1 && (c10::isReducedFloatingType(dtype) || c10::isFloat8Type(dtype));
  if (!saturates) check_scalar(given, dtype);
  if (self.numel() == 0) return self;
  const Scalar value = saturates ? Scalar(given.toDouble()) : given;
  if (!on_chip(dtype) && bits_dtype(dtype)) {
    Tensor same = self.view(*bits_dtype(dtype));
    fill_scalar(same, emulated_bits(value, dtype));
    return self;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(on_chip(dtype), "fill_ of dtype ", dtype, " is not supported on the atalla device");
  const ScalarType immediate_dtype = c10::isComplexType(dtype) ? c10::kComplexDouble : wide_dtype(value, dtype);
  if (self.is_non_overlapping_and_dense() && !records()) {
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
