// SPDX-License-Identifier: BSD-3-Clause
//
// The steps of fused optimizers, one launch a parameter, and of a gradient scaler; upstream's asynchronous assertion.
// Step counts, a learning rate in a tensor, the gradients' scale and found_inf are read by the chip, so that nothing
// waits for the host.
#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// The arguments that all optimizers share.
struct Common {
  TensorList params, grads;
  const Tensor& rate;
  double weight_decay;
  bool maximize;
  const Tensor &grad_scale, &found_inf;
  double lr = rate.is_cpu() ? rate.item<double>() : 0;
  Tensor lr_tensor = rate.is_cpu() ? Tensor() : rate;
};

Tensor on_device(const Tensor& t, c10::Device device) { return t.defined() ? t.to(device) : t; }

// `parameters` has those that are the rule's own; undefined states are absent.
template <class Parameters>
void launch_step(const Kernel& kernel, const Common& c, size_t i, const std::array<Tensor, 3>& states,
                 const Tensor& step, Parameters parameters) {
  const Tensor &param = c.params[i], &grad = c.grads[i];
  if (param.numel() == 0) return;
  const c10::Device device = param.device();
  TORCH_CHECK(grad.device() == device && grad.sizes() == param.sizes(),
              "params, grads and state must be on one device and of the same sizes, got a parameter ", param.sizes(),
              " on ", device, " and a gradient ", grad.sizes(), " on ", grad.device());
  const Tensor scale = on_device(c.grad_scale, device), inf = on_device(c.found_inf, device);
  const Tensor count = on_device(step, device);
  parameters.learning_rate = c.lr, parameters.weight_decay = c.weight_decay, parameters.maximize = c.maximize;
  launch(kernel, param.scalar_type(), {param, grad, states[0], states[1], states[2]}, {count, c.lr_tensor, scale, inf},
         parameters);
}

}  // namespace

void adam(const Kernel& kernel, bool decoupled, TensorList self, TensorList grads, TensorList exp_avgs,
          TensorList exp_avg_sqs, TensorList max_exp_avg_sqs, TensorList state_steps, const Tensor& lr, double beta1,
          double beta2, double weight_decay, double eps, bool amsgrad, bool maximize, const Tensor& grad_scale,
          const Tensor& found_inf) {
  const size_t n = self.size();
  TORCH_CHECK(grads.size() == n && exp_avgs.size() == n && exp_avg_sqs.size() == n && state_steps.size() == n,
              "expected as many gradients, averages and steps as parameters (", n, ")");
  TORCH_CHECK(max_exp_avg_sqs.size() == (amsgrad ? n : 0), "expected ", amsgrad ? n : 0, " maxima, got ",
              max_exp_avg_sqs.size());
  const Common c{self, grads, lr, weight_decay, maximize, grad_scale, found_inf};
  const OptimizerAdamParameters parameters{.betas = {beta1, beta2}, .eps = eps, .decoupled = decoupled};
  for (size_t i = 0; i < n; ++i) {
    const Tensor most = amsgrad ? max_exp_avg_sqs[i] : Tensor();
    launch_step(kernel, c, i, {exp_avgs[i], exp_avg_sqs[i], most}, state_steps[i], parameters);
  }
}

void sgd(const Kernel& kernel, TensorList self, TensorList grads, TensorList buffers, double weight_decay,
         double momentum, const Tensor& lr, double dampening, bool nesterov, bool maximize, bool first,
         const Tensor& grad_scale, const Tensor& found_inf) {
  TORCH_CHECK(grads.size() == self.size(), "expected a gradient for each of ", self.size(), " parameters");
  const bool has_buffers = momentum != 0;
  TORCH_CHECK(!has_buffers || buffers.size() == self.size(), "expected a momentum buffer for each parameter");
  TORCH_CHECK(has_buffers || !first, "is_first_step needs a momentum");
  const Common c{self, grads, lr, weight_decay, maximize, grad_scale, found_inf};
  const OptimizerSgdParameters parameters{
      .momentum = momentum, .dampening = dampening, .nesterov = nesterov, .first_step = first};
  for (size_t i = 0; i < self.size(); ++i) {
    const Tensor buffer = has_buffers ? buffers[i] : Tensor();
    launch_step(kernel, c, i, {buffer, Tensor(), Tensor()}, Tensor(), parameters);
  }
}

void adagrad(const Kernel& kernel, TensorList self, TensorList grads, TensorList sums, TensorList steps,
             const Tensor& lr, double lr_decay, double weight_decay, double eps, bool maximize,
             const Tensor& grad_scale, const Tensor& found_inf) {
  const size_t n = self.size();
  TORCH_CHECK(grads.size() == n && sums.size() == n && steps.size() == n,
              "expected as many gradients, sums and steps as parameters (", n, ")");
  const Common c{self, grads, lr, weight_decay, maximize, grad_scale, found_inf};
  const OptimizerAdagradParameters parameters{.learning_rate_decay = lr_decay, .eps = eps};
  for (size_t i = 0; i < n; ++i) launch_step(kernel, c, i, {sums[i], Tensor(), Tensor()}, steps[i], parameters);
}

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
