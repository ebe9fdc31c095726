// SPDX-License-Identifier: BSD-3-Clause
//
// Batch normalization: statistics of each channel, then their use, a launch each. Half-precision tensors are computed
// in float32 throughout; statistics are rounded only where they are returned.
#include <ATen/native/cpu/mixed_data_type.h>

#include "aten/kernels/norm/channel_norm.h"

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
  launch(kStatistics, wide_dtype(x), {mean, rstd, p.running_mean, p.running_var}, {{x, v.sizes, v.strides}},
         ChannelNormStatisticsParameters{.eps = eps, .momentum = momentum, .zero_variance = true});
}

// `is_variance`: `rstd` holds variances, from which the kernel makes the factor with eps.
void launch_apply(const Tensor& x, const Parameters& p, const Tensor& mean, const Tensor& rstd, bool is_variance,
                  double eps, const Tensor& out) {
  const View v = view_of(x);
  const std::array<int64_t, 4> sizes{v.sizes[0], 1, v.sizes[1], v.sizes[2]};
  const std::array<int64_t, 4> strides{v.strides[0], 0, v.strides[1], v.strides[2]};
  LaunchBuilder builder(kApply, wide_dtype(x), {{out, sizes, strides}}, {{x, sizes, strides}});
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

}  // namespace atalla::aten
