// SPDX-License-Identifier: BSD-3-Clause
//
// Fused optimizer steps: one launch a parameter. Step counts, a learning rate in a tensor, the gradients' scale and
// found_inf are read by the chip, so that nothing waits for the host.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

const Kernel kAdam("optimizer.adam"), kSgd("optimizer.sgd"), kAdagrad("optimizer.adagrad");

// The arguments that all optimizers share.
struct Common {
  TensorList params, grads;
  double lr = 0, weight_decay = 0;
  Tensor lr_tensor;
  bool maximize = false;
  std::optional<Tensor> grad_scale, found_inf;

  Common(TensorList p, TensorList g, double rate, double decay, bool max, const std::optional<Tensor>& scale,
         const std::optional<Tensor>& inf)
      : params(p), grads(g), lr(rate), weight_decay(decay), maximize(max), grad_scale(scale), found_inf(inf) {}
  Common(TensorList p, TensorList g, const Tensor& rate, double decay, bool max, const std::optional<Tensor>& scale,
         const std::optional<Tensor>& inf)
      : Common(p, g, rate.is_cpu() ? rate.item<double>() : 0.0, decay, max, scale, inf) {
    if (!rate.is_cpu()) lr_tensor = rate;
  }
};

Tensor on_device(const std::optional<Tensor>& t, c10::Device device) {
  return t.has_value() && t->defined() ? t->to(device) : Tensor();
}

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
  const Tensor count = step.defined() ? step.to(device) : step;
  parameters.learning_rate = c.lr, parameters.weight_decay = c.weight_decay, parameters.maximize = c.maximize;
  launch(kernel, param.scalar_type(), {param, grad, states[0], states[1], states[2]}, {count, c.lr_tensor, scale, inf},
         parameters);
}

void adam(const Common& c, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList max_exp_avg_sqs,
          TensorList state_steps, double beta1, double beta2, double eps, bool amsgrad, bool decoupled) {
  const size_t n = c.params.size();
  TORCH_CHECK(c.grads.size() == n && exp_avgs.size() == n && exp_avg_sqs.size() == n && state_steps.size() == n,
              "expected as many gradients, averages and steps as parameters (", n, ")");
  TORCH_CHECK(max_exp_avg_sqs.size() == (amsgrad ? n : 0), "expected ", amsgrad ? n : 0, " maxima, got ",
              max_exp_avg_sqs.size());
  const OptimizerAdamParameters parameters{.betas = {beta1, beta2}, .eps = eps, .decoupled = decoupled};
  for (size_t i = 0; i < n; ++i) {
    const Tensor most = amsgrad ? max_exp_avg_sqs[i] : Tensor();
    launch_step(kAdam, c, i, {exp_avgs[i], exp_avg_sqs[i], most}, state_steps[i], parameters);
  }
}

void sgd(const Common& c, TensorList buffers, double momentum, double dampening, bool nesterov, bool first) {
  TORCH_CHECK(c.grads.size() == c.params.size(), "expected a gradient for each of ", c.params.size(), " parameters");
  const bool has_buffers = momentum != 0;
  TORCH_CHECK(!has_buffers || buffers.size() == c.params.size(), "expected a momentum buffer for each parameter");
  TORCH_CHECK(has_buffers || !first, "is_first_step needs a momentum");
  const OptimizerSgdParameters parameters{
      .momentum = momentum, .dampening = dampening, .nesterov = nesterov, .first_step = first};
  for (size_t i = 0; i < c.params.size(); ++i) {
    const Tensor buffer = has_buffers ? buffers[i] : Tensor();
    launch_step(kSgd, c, i, {buffer, Tensor(), Tensor()}, Tensor(), parameters);
  }
}

void adagrad(const Common& c, TensorList sums, TensorList steps, double lr_decay, double eps) {
  const size_t n = c.params.size();
  TORCH_CHECK(c.grads.size() == n && sums.size() == n && steps.size() == n,
              "expected as many gradients, sums and steps as parameters (", n, ")");
  const OptimizerAdagradParameters parameters{.learning_rate_decay = lr_decay, .eps = eps};
  for (size_t i = 0; i < n; ++i) {
    launch_step(kAdagrad, c, i, {sums[i], Tensor(), Tensor()}, steps[i], parameters);
  }
}

}  // namespace

// A rule with the learning rate as a number, and as a tensor.
#define ATALLA_DEFINE_ADAM(name, Rate, decoupled)                                                                  \
  void name(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,                        \
            TensorList max_exp_avg_sqs, TensorList state_steps, Rate lr, double beta1, double beta2,               \
            double weight_decay, double eps, bool amsgrad, bool maximize, const std::optional<Tensor>& grad_scale, \
            const std::optional<Tensor>& found_inf) {                                                              \
    adam(Common(self, grads, lr, weight_decay, maximize, grad_scale, found_inf), exp_avgs, exp_avg_sqs,            \
         max_exp_avg_sqs, state_steps, beta1, beta2, eps, amsgrad, decoupled);                                     \
  }
ATALLA_DEFINE_ADAM(fused_adam_, double, false)
ATALLA_DEFINE_ADAM(fused_adam_tensor_lr, const Tensor&, false)
ATALLA_DEFINE_ADAM(fused_adamw_, double, true)
ATALLA_DEFINE_ADAM(fused_adamw_tensor_lr, const Tensor&, true)

#define ATALLA_DEFINE_SGD(name, Rate)                                                                             \
  void name(TensorList self, TensorList grads, TensorList buffers, double weight_decay, double momentum, Rate lr, \
            double dampening, bool nesterov, bool maximize, bool is_first_step,                                   \
            const std::optional<Tensor>& grad_scale, const std::optional<Tensor>& found_inf) {                    \
    sgd(Common(self, grads, lr, weight_decay, maximize, grad_scale, found_inf), buffers, momentum, dampening,     \
        nesterov, is_first_step);                                                                                 \
  }
ATALLA_DEFINE_SGD(fused_sgd_, double)
ATALLA_DEFINE_SGD(fused_sgd_tensor_lr, const Tensor&)

#define ATALLA_DEFINE_ADAGRAD(name, Rate)                                                                        \
  void name(TensorList self, TensorList grads, TensorList sums, TensorList steps, Rate lr, double lr_decay,      \
            double weight_decay, double eps, bool maximize, const std::optional<Tensor>& grad_scale,             \
            const std::optional<Tensor>& found_inf) {                                                            \
    adagrad(Common(self, grads, lr, weight_decay, maximize, grad_scale, found_inf), sums, steps, lr_decay, eps); \
  }
ATALLA_DEFINE_ADAGRAD(fused_adagrad_, double)
ATALLA_DEFINE_ADAGRAD(fused_adagrad_tensor_lr, const Tensor&)

}  // namespace atalla::aten
