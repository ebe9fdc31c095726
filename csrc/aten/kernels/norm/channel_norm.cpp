// SPDX-License-Identifier: BSD-3-Clause
//
// Batch and group normalization: statistics of each channel or group, then their use, a launch each. Half-precision
// tensors are computed in float32 throughout; statistics are rounded only where they are returned. What
// nn.SyncBatchNorm is made of: statistics of this process' part of a batch, those of all parts together, and their use,
// from pointwise kernels and reductions; statistics of half-precision tensors are float32.
#include <ATen/native/cpu/mixed_data_type.h>

#include <limits>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

struct Parameters {
  Tensor weight, bias, running_mean, running_var;
};
// The memory format of the result, as upstream chooses it: one in which the input has no gaps, also where its strides
// suggest none.
MemoryFormat format_of(const Tensor& t) {
  for (const MemoryFormat format : {MemoryFormat::Contiguous, MemoryFormat::ChannelsLast3d, MemoryFormat::ChannelsLast})
    if (t.is_contiguous(format)) return format;
  return t.suggest_memory_format();
}

// [n, c, ...] as [a, k, b]: channels in the middle, or innermost with b = 1.
struct View {
  std::array<int64_t, 3> sizes, strides;
};
View view_of(const Tensor& t) {
  const int64_t n = t.size(0), c = t.size(1), image = c > 0 && n > 0 ? t.numel() / c / n : 0;
  if (t.is_contiguous()) return {{n, c, image}, {c * image, image, 1}};
  return {{n * image, c, 1}, {c, 1, 1}};
}

ScalarType wide_dtype(const Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

void launch_statistics(const Tensor& x, const Parameters& p, double momentum, double eps, const Tensor& mean,
                       const Tensor& rstd) {
  const View v = view_of(x);
  launch(kChannelNormStatistics, wide_dtype(x), {mean, rstd, p.running_mean, p.running_var}, {{x, v.sizes, v.strides}},
         ChannelNormStatisticsParameters{.eps = eps, .momentum = momentum, .zero_variance = true});
}

// `is_variance`: `rstd` holds variances, from which the kernel makes the factor with eps.
void launch_apply(const Tensor& x, const Parameters& p, const Tensor& mean, const Tensor& rstd, bool is_variance,
                  double eps, const Tensor& out) {
  const View v = view_of(x);
  const std::array<int64_t, 4> sizes{v.sizes[0], 1, v.sizes[1], v.sizes[2]};
  const std::array<int64_t, 4> strides{v.strides[0], 0, v.strides[1], v.strides[2]};
  LaunchBuilder builder(kChannelNormApply, wide_dtype(x), {{out, sizes, strides}}, {{x, sizes, strides}});
  for (const Tensor& t : {mean, rstd, p.weight, p.bias})
    builder.input({t, {sizes[0], 1, sizes[2]}, {0, 0, t.defined() ? t.stride(0) : 0}});
  builder.parameters(ChannelNormApplyParameters{.from_variance = is_variance, .eps = eps}).launch(x.device());
}

ScalarType statistics_dtype(const Tensor& self, const Parameters& p) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "\"batch_norm\" not implemented for '",
                              self.scalar_type(), "'");
  const bool mixed = at::native::is_mixed_type(self, p.weight, p.bias, p.running_mean, p.running_var);
  if (mixed) at::native::check_mixed_data_type(self, p.weight, p.bias, p.running_mean, p.running_var);
  return at::native::param_scalar_type(self, mixed);
}

// Fills `out`, which has the sizes of self and its format; returns mean and rstd of the batch, empty outside training.
std::tuple<Tensor, Tensor> normalize(const Tensor& self, const Parameters& p, bool train, double momentum, double eps,
                                     const Tensor& out) {
  const ScalarType dtype = statistics_dtype(self, p), wide = wide_dtype(self);
  const Tensor x = self.contiguous(format_of(self));
  if (!train) {
    TORCH_CHECK(p.running_mean.defined(), "running_mean must be defined in evaluation mode");
    TORCH_CHECK(p.running_var.defined(), "running_var must be defined in evaluation mode");
    if (self.numel() > 0) launch_apply(x, p, p.running_mean, p.running_var, true, eps, out);
    Tensor none = empty_like_dtype(self, {0}, dtype);
    return {none, none.clone()};
  }
  TORCH_CHECK(self.numel() > 0, "input tensor must have at least one element, but got input_sizes = ", self.sizes());
  Tensor mean = empty_like_dtype(self, {self.size(1)}, wide), rstd = empty_like_dtype(self, {self.size(1)}, wide);
  launch_statistics(x, p, momentum, eps, mean, rstd);
  launch_apply(x, p, mean, rstd, false, eps, out);
  return {mean.to(dtype), rstd.to(dtype)};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                              const Tensor& running_mean, const Tensor& running_var, bool training,
                                              double momentum, double eps) {
  const Parameters p{weight, bias, running_mean, running_var};
  Tensor out = at::empty_like(input, format_of(input));
  auto [mean, rstd] = normalize(input, p, training, momentum, eps, out);
  return {out, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_with_update(const Tensor& input, const Tensor& weight,
                                                                  const Tensor& bias, Tensor& running_mean,
                                                                  Tensor& running_var, double momentum, double eps) {
  auto [out, mean, rstd] = batch_norm(input, weight, bias, running_mean, running_var, true, momentum, eps);
  return {out, mean, rstd, empty_like_dtype(input, {0}, at::kByte)};
}

namespace {

void launch_group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t n, int64_t c, int64_t image,
                       int64_t groups, double eps, Tensor& out, Tensor& mean, Tensor& rstd) {
  const ScalarType wide = wide_dtype(x);
  const int64_t channels = c / groups;
  const Tensor wide_mean = mean.scalar_type() == wide ? mean : empty_like_dtype(x, mean.sizes(), wide);
  const Tensor wide_rstd = rstd.scalar_type() == wide ? rstd : empty_like_dtype(x, rstd.sizes(), wide);
  const Tensor rows = x.contiguous();
  const std::array<int64_t, 1> flat{n * groups}, unit{1};
  launch(kChannelNormStatistics, wide, {{wide_mean, flat, unit}, {wide_rstd, flat, unit}, Tensor(), Tensor()},
         {{rows, {1, n * groups, channels * image}, {0, channels * image, 1}}},
         ChannelNormStatisticsParameters{.eps = eps});

  const std::array<int64_t, 4> sizes{n, groups, channels, image};
  // Channels last: those of a pixel lie together.
  const std::array<int64_t, 4> strides = x.is_contiguous()
                                             ? std::array<int64_t, 4>{c * image, channels * image, image, 1}
                                             : std::array<int64_t, 4>{c * image, channels, 1, c};
  const std::array<int64_t, 3> groupwise{n, groups, channels};
  launch(kChannelNormApply, wide, {{out, sizes, strides}},
         {{x, sizes, strides},
          {wide_mean, groupwise, {groups, 1, 0}},
          {wide_rstd, groupwise, {groups, 1, 0}},
          {weight, groupwise, {0, channels, 1}},
          {bias, groupwise, {0, channels, 1}}});
  if (!wide_mean.is_same(mean)) mean.copy_(wide_mean);
  if (!wide_rstd.is_same(rstd)) rstd.copy_(wide_rstd);
}

void check_inputs(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t c, int64_t groups) {
  TORCH_CHECK(groups > 0, "Expected num groups to be greater than 0, got ", groups);
  TORCH_CHECK(c % groups == 0,
              "Expected number of channels in input to be divisible by num_groups, but got input of shape ",
              input.sizes(), " and num_groups=", groups);
  TORCH_CHECK(
      !weight.defined() || (weight.dim() == 1 && weight.numel() == c),
      "Expected weight to be a vector of size equal to the number of channels in input, but got weight of shape ",
      weight.sizes(), " and input of shape ", input.sizes());
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.numel() == c),
              "Expected bias to be a vector of size equal to the number of channels in input, but got bias of shape ",
              bias.sizes(), " and input of shape ", input.sizes());
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> native_group_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                                     int64_t n, int64_t c, int64_t image, int64_t group, double eps) {
  check_inputs(input, weight, bias, c, group);
  TORCH_CHECK(input.numel() == n * c * image, "Expected X.numel() == N * C * HxW to be true, but got false.");
  const bool mixed = at::native::is_mixed_type(input, weight, bias);
  if (mixed) at::native::check_mixed_data_type(input, weight, bias);
  const ScalarType dtype = at::native::param_scalar_type(input, mixed);
  Tensor mean = empty_like_dtype(input, {n, group}, dtype), rstd = empty_like_dtype(input, {n, group}, dtype);
  const MemoryFormat format = input.suggest_memory_format();
  Tensor out = at::empty_like(input, format);
  if (input.numel() == 0) {
    mean.zero_();
    rstd.fill_(std::numeric_limits<double>::quiet_NaN());
  } else {
    launch_group_norm(input.contiguous(format), weight.defined() ? weight.contiguous() : weight,
                      bias.defined() ? bias.contiguous() : bias, n, c, image, group, eps, out, mean, rstd);
  }
  return {out, mean, rstd};
}

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
