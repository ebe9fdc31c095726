// SPDX-License-Identifier: BSD-3-Clause
//
// What nn.SyncBatchNorm is made of: statistics of this process' part of a batch, those of all parts together, and their
// use, from pointwise kernels and reductions. Statistics of half-precision tensors are float32.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

// [c], to be broadcast against `like`.
Tensor per_channel(const Tensor& t, const Tensor& like) {
  DimVector shape(like.dim(), 1);
  shape[1] = like.size(1);
  return t.reshape(shape);
}

void check_input(const char* op, const Tensor& input) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(input.scalar_type()), "\"", op, "\" not implemented for '",
                              input.scalar_type(), "'");
  TORCH_CHECK(input.dim() >= 2, op, ": expected at least 2D input (got ", input.dim(), "D input)");
}

std::tuple<Tensor, Tensor> variance_and_mean(const Tensor& input) {
  return at::var_mean(widened(input), dims_but(input, 1), /*correction=*/Scalar(0), /*keepdim=*/false);
}

// running = (1 - momentum) * running + momentum * value
void update_running(const Tensor& running, const Tensor& value, double momentum) {
  if (!running.defined()) return;
  const Tensor old = widened(running);
  running.copy_(at::add(at::mul(old, Scalar(1 - momentum)), at::mul(value, Scalar(momentum))));
}

}  // namespace

std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double eps) {
  check_input("batch_norm_stats", input);
  const auto [variance, mean] = variance_and_mean(input);
  return {mean, at::rsqrt(at::add(variance, Scalar(eps)))};
}

std::tuple<Tensor, Tensor> batch_norm_update_stats(const Tensor& input, const Tensor& running_mean,
                                                   const Tensor& running_var, double momentum) {
  check_input("batch_norm_update_stats", input);
  const auto [variance, mean] = variance_and_mean(input);
  const double count = static_cast<double>(input.numel()) / static_cast<double>(input.size(1));
  update_running(running_mean, mean, momentum);
  update_running(running_var, at::mul(variance, Scalar(count / (count - 1))), momentum);
  return {mean.to(input.scalar_type()), variance.to(input.scalar_type())};
}

Tensor batch_norm_elemt(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                        const Tensor& invstd, double) {
  check_input("batch_norm_elemt", input);
  Tensor factor = widened(invstd), shift = widened(bias);
  if (const Tensor w = widened(weight); w.defined()) factor = at::mul(factor, w);
  Tensor out = at::mul(at::sub(widened(input), per_channel(widened(mean), input)), per_channel(factor, input));
  if (shift.defined()) out = at::add(out, per_channel(shift, input));
  return out.to(input.scalar_type());
}

// mean and invstd: [parts, c], counts: [parts], all of them at least 1.
std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(const Tensor& input, const Tensor& mean,
                                                               const Tensor& invstd, const Tensor& running_mean,
                                                               const Tensor& running_var, double momentum, double eps,
                                                               const Tensor& counts) {
  check_input("batch_norm_gather_stats_with_counts", input);
  const Tensor means = widened(mean);
  const Tensor variances = at::sub(at::reciprocal(at::mul(widened(invstd), widened(invstd))), Scalar(eps));
  const Tensor weights = counts.to(means.scalar_type()).reshape({-1, 1});
  const Tensor total = at::sum(weights);
  const Tensor joint_mean = at::div(at::sum(at::mul(means, weights), {0}), total);
  const Tensor apart = at::sub(means, joint_mean);
  const Tensor squares = at::sum(at::mul(at::add(variances, at::mul(apart, apart)), weights), {0});
  update_running(running_mean, joint_mean, momentum);
  update_running(running_var, at::div(squares, at::sub(total, Scalar(1))), momentum);
  return {joint_mean, at::rsqrt(at::add(at::div(squares, total), Scalar(eps)))};
}

std::tuple<Tensor, Tensor> batch_norm_gather_stats(const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                                   const Tensor& running_mean, const Tensor& running_var,
                                                   double momentum, double eps, int64_t count) {
  const Tensor counts = at::add(at::mul(mean.select(1, 0), Scalar(0)), Scalar(count));
  return aten::batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps,
                                                   counts);
}

// Sums of the gradient and of its product with the centred input; gradients of weight and bias. Undefined where not
// asked.
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(const Tensor& grad_out, const Tensor& input,
                                                                      const Tensor& mean, const Tensor& invstd,
                                                                      const Tensor& weight, bool input_g, bool weight_g,
                                                                      bool bias_g) {
  check_input("batch_norm_backward_reduce", input);
  const DimVector dims = dims_but(input, 1);
  const Tensor g = widened(grad_out), centred = at::sub(widened(input), per_channel(widened(mean), input));
  const Tensor sum = at::sum(g, dims, false), products = at::sum(at::mul(g, centred), dims, false);
  const ScalarType parameter = weight.defined() ? weight.scalar_type() : input.scalar_type();
  const Tensor none;
  return {input_g ? sum : none, input_g ? products : none,
          weight_g ? at::mul(products, widened(invstd)).to(parameter) : none, bias_g ? sum.to(parameter) : none};
}

Tensor batch_norm_backward_elemt(const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                 const Tensor& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                                 const Tensor& count) {
  check_input("batch_norm_backward_elemt", input);
  const Tensor r = widened(invstd), total = at::sum(count).to(r.scalar_type());
  const Tensor slope = at::mul(at::div(widened(sum_dy_xmu), total), at::mul(r, r));
  Tensor factor = r;
  if (const Tensor w = widened(weight); w.defined()) factor = at::mul(factor, w);
  const Tensor centred = at::sub(widened(input), per_channel(widened(mean), input));
  const Tensor rest = at::sub(widened(grad_out), per_channel(at::div(widened(sum_dy), total), input));
  const Tensor gradient =
      at::mul(at::sub(rest, at::mul(centred, per_channel(slope, input))), per_channel(factor, input));
  return gradient.to(input.scalar_type()).contiguous(input.suggest_memory_format());
}

}  // namespace atalla::aten
