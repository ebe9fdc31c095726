// SPDX-License-Identifier: BSD-3-Clause
//
// The steps of a gradient scaler, without waiting for the host, and upstream's asynchronous assertion.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

void amp_non_finite_check_and_unscale_(TensorList self, Tensor& found_inf, const Tensor& inv_scale) {
  TORCH_CHECK(inv_scale.numel() == 1, "inv_scale must be a 1-element tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  TORCH_CHECK(inv_scale.scalar_type() == at::kFloat, "inv_scale must be a float tensor.");
  TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
  for (const Tensor& t : self) {
    if (t.numel() == 0) continue;
    const Tensor bad = at::any(at::logical_not(at::isfinite(t))).to(at::kFloat);
    found_inf.copy_(at::maximum(found_inf, bad.expand_as(found_inf)));
    t.copy_(at::mul(at::isReducedFloatingType(t.scalar_type()) ? t.to(at::kFloat) : t, inv_scale.reshape({})));
  }
}

Tensor& amp_update_scale_(Tensor& self, Tensor& growth_tracker, const Tensor& found_inf, double scale_growth_factor,
                          double scale_backoff_factor, int64_t growth_interval) {
  TORCH_CHECK(growth_tracker.numel() == 1, "growth_tracker must be a 1-element tensor.");
  TORCH_CHECK(growth_tracker.scalar_type() == at::kInt, "growth_tracker must be an int tensor.");
  TORCH_CHECK(self.numel() == 1, "current_scale must be a 1-element tensor.");
  TORCH_CHECK(self.scalar_type() == at::kFloat, "current_scale must be a float tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
  const Tensor found = found_inf.ne(0).reshape({}), scale = self.reshape({});
  const Tensor successes = at::add(growth_tracker.reshape({}), 1);
  const Tensor due = at::eq(successes, growth_interval), grown = at::mul(scale, scale_growth_factor);
  // A scale does not grow to infinity.
  const Tensor grows = at::logical_and(due, at::isfinite(grown));
  const Tensor kept = at::where(grows, grown, scale);
  const Tensor next = at::where(found, at::mul(scale, scale_backoff_factor), kept);
  const Tensor none = at::zeros_like(successes);
  growth_tracker.copy_(at::where(found, none, at::where(due, none, successes)).expand_as(growth_tracker));
  return self.copy_(next.expand_as(self));
}

// The value is needed to raise, so the host waits for it, as upstream's CPU does.
void assert_async_msg(const Tensor& self, std::string_view message) { TORCH_CHECK(self.is_nonzero(), message); }
// Programs without side effects order assertions by tokens: each takes one and returns one.
Tensor make_dep_token(std::optional<ScalarType> dtype, std::optional<at::Layout> layout,
                      std::optional<at::Device> device, std::optional<bool> pin_memory,
                      std::optional<MemoryFormat> format) {
  return at::empty({}, dtype, layout, device, pin_memory, format);
}
Tensor functional_assert_async_msg(const Tensor& self, std::string_view message, const Tensor& token) {
  assert_async_msg(self, message);
  return token.clone();
}

}  // namespace atalla::aten
