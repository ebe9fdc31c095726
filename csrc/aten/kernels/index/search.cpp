// SPDX-License-Identifier: BSD-3-Clause
//
// searchsorted, bucketize and isin. Operands are brought to one dtype first, as upstream does.
#include <ATen/native/BucketizationUtils.h>

#include "aten/kernels/adaptor.h"
#include "aten/launch/launch_recorder.h"

namespace atalla::aten {

Tensor& searchsorted_out(const Kernel& kernel, const Tensor& sorted_sequence, const Tensor& self, bool out_int32,
                         bool right, std::optional<std::string_view> side, const Tensor& sorter, Tensor& out) {
  at::native::searchsorted_pre_check(sorted_sequence, self, out, out_int32, right, side,
                                     may_check_elements() ? sorter : Tensor());
  at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return out;
  Tensor rows = sorted_sequence, values = self;
  if (rows.scalar_type() != values.scalar_type()) {
    at::native::ResultTypeState state = {};
    state = at::native::update_result_type_state(rows, state);
    state = at::native::update_result_type_state(values, state);
    const ScalarType common = at::native::result_type(state);
    rows = rows.to(common);
    values = values.to(common);
  }
  launch(kernel, values.scalar_type(), {out}, {rows, values, sorter},
         SearchsortedParameters{.right = side.has_value() ? *side == "right" : right});
  return out;
}

Tensor& searchsorted_scalar_out(const Kernel& kernel, const Tensor& sorted_sequence, const Scalar& self, bool out_int32,
                                bool right, std::optional<std::string_view> side, const Tensor& sorter, Tensor& out) {
  const Tensor value = at::native::searchsorted_scalar_tensor(self, sorted_sequence.device());
  return searchsorted_out(kernel, sorted_sequence, value, out_int32, right, side, sorter, out);
}

Tensor& bucketize_out(const Kernel& kernel, const Tensor& self, const Tensor& boundaries, bool out_int32, bool right,
                      Tensor& out) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
  return searchsorted_out(kernel, boundaries, self, out_int32, right, std::nullopt, Tensor(), out);
}

Tensor& bucketize_scalar_out(const Kernel& kernel, const Scalar& self, const Tensor& boundaries, bool out_int32,
                             bool right, Tensor& out) {
  const Tensor value = at::native::searchsorted_scalar_tensor(self, boundaries.device());
  return bucketize_out(kernel, value, boundaries, out_int32, right, out);
}

void isin(const Kernel& kernel, const Tensor& elements, const Tensor& test_elements, bool invert, const Tensor& out) {
  if (out.numel() == 0) return;
  const ScalarType common = at::result_type(elements, test_elements);
  const Tensor x = elements.to(common), list = test_elements.to(common).reshape(-1);
  launch(kernel, common, {out}, {x, list}, IsinParameters{.invert = invert});
}

void isin_scalar(const Tensor& elements, const Scalar& test_element, bool assume_unique, bool invert,
                 const Tensor& out) {
  Tensor result = out;
  if (invert) at::ne_out(result, elements, test_element);
  else at::eq_out(result, elements, test_element);
}

// The meta gives the result no size yet: it is the scalar's.
void scalar_isin(const Kernel& kernel, const Scalar& element, const Tensor& test_elements, bool invert,
                 const Tensor& out) {
  at::native::resize_output(out, {});
  isin(kernel, at::scalar_tensor(element, test_elements.options()), test_elements, invert, out);
}

}  // namespace atalla::aten
