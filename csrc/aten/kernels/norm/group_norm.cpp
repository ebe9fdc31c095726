// SPDX-License-Identifier: BSD-3-Clause
//
// Group normalization. A group is a row of a contiguous tensor, so its statistics are those of a channel; they are used
// on [n, group, channels of it, image].
#include <ATen/native/cpu/mixed_data_type.h>

#include <limits>

#include "aten/kernels/norm/channel_norm.h"

namespace atalla::aten {

namespace {

void launch_group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t n, int64_t c, int64_t image,
                       int64_t groups, double eps, Tensor& out, Tensor& mean, Tensor& rstd) {
  const bool is_double = x.scalar_type() == at::kDouble;
  const ScalarType wide = is_double ? at::kDouble : at::kFloat;
  const int64_t channels = c / groups;
  const Tensor wide_mean = mean.scalar_type() == wide ? mean : empty_like_dtype(x, mean.sizes(), wide);
  const Tensor wide_rstd = rstd.scalar_type() == wide ? rstd : empty_like_dtype(x, rstd.sizes(), wide);
  const Tensor rows = x.contiguous();
  const std::array<int64_t, 1> flat{n * groups}, unit{1};
  launch(kStatistics, wide, {{wide_mean, flat, unit}, {wide_rstd, flat, unit}, Tensor(), Tensor()},
         {{rows, {1, n * groups, channels * image}, {0, channels * image, 1}}},
         ChannelNormStatisticsParameters{.eps = eps});

  const std::array<int64_t, 4> sizes{n, groups, channels, image};
  // Channels last: those of a pixel lie together.
  const std::array<int64_t, 4> strides = x.is_contiguous()
                                             ? std::array<int64_t, 4>{c * image, channels * image, image, 1}
                                             : std::array<int64_t, 4>{c * image, channels, 1, c};
  const std::array<int64_t, 3> groupwise{n, groups, channels};
  launch(kApply, wide, {{out, sizes, strides}},
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

}  // namespace atalla::aten
