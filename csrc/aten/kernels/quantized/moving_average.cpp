// SPDX-License-Identifier: BSD-3-Clause
//
// Quantization-aware training: moving averages of a tensor's range, the scale and zero point that they give, and fake
// quantization with these. The flags are read on the chip, so that a step does not wait for the host.
#include <ATen/ops/_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/fake_quantize_per_channel_affine_cachemask.h>

#include <limits>

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

constexpr double kSmallestScale = 6.1e-5f;  // SMALL_SCALE_THRESHOLD of ATen/native/quantized/cpu/QuantUtils.h

Tensor is_on(const Tensor& flag, const char* name, const Tensor& self) {
  TORCH_CHECK(flag.numel() == 1, "expected ", name, " to have one element, got ", flag.sizes());
  return flag.to(self.device()).reshape({}).ne(0);
}

// An average that has seen nothing is infinite, and takes the value itself.
void average(Tensor& running, const Tensor& seen, const Tensor& on, double constant) {
  const Tensor value = seen.reshape(running.sizes()).to(running.scalar_type());
  const Tensor moved = at::where(running.isinf(), value, running.add(value.sub(running).mul(constant)));
  running.copy_(at::where(on, moved, running));
}

struct Parameters {
  Tensor scale, zero_point;
};

// Scale and zero point of the ranges from `low` to `high`, float32 of any shape: QuantUtils.h, with the same precision
// of each step.
Parameters choose(Tensor low, Tensor high, int64_t quant_min, int64_t quant_max, bool symmetric) {
  TORCH_CHECK(quant_min < quant_max, "expected `quant_min` to be less than `quant_max`, got ", quant_min, " and ",
              quant_max);
  const Tensor has_both_signs = low.lt(0).logical_and(high.gt(0));
  if (symmetric) {
    const int64_t top = (quant_max - quant_min) / 2, bottom = -(top + 1);
    const Tensor step = at::maximum(low.div(bottom).abs(), high.div(top).abs()).to(at::kDouble);
    low = at::where(has_both_signs, step.mul(bottom).to(at::kFloat), low);
    high = at::where(has_both_signs, step.mul(top).to(at::kFloat), high);
  }
  Tensor least = low.clamp_max(0).to(at::kDouble), most = high.clamp_min(0).to(at::kDouble);
  const auto steps = static_cast<double>(quant_max - quant_min);
  Tensor scale = most.sub(least).div(steps);
  const Tensor single = scale.to(at::kFloat);
  scale = scale.masked_fill(single.eq(0).logical_or(single.reciprocal().isinf()), 0.1);

  const Tensor is_small = scale.lt(kSmallestScale), has_no_low = least.eq(0), has_no_high = most.eq(0);
  const Tensor amplifier = scale.to(at::kFloat).reciprocal().mul(kSmallestScale).to(at::kDouble);
  const auto rounded = [](const Tensor& t) { return t.to(at::kFloat).to(at::kDouble); };
  const Tensor wide_most = at::where(has_no_low, most.new_full({}, kSmallestScale * steps),
                                     at::where(has_no_high, most, rounded(most.mul(amplifier))));
  const Tensor wide_least =
      at::where(has_no_low, least,
                at::where(has_no_high, least.new_full({}, -kSmallestScale * steps), rounded(least.mul(amplifier))));
  most = at::where(is_small, wide_most, most), least = at::where(is_small, wide_least, least);
  scale = scale.clamp_min(kSmallestScale);

  const Tensor below = least.div(scale), above = most.div(scale);
  const Tensor error_below = below.abs().neg().add(std::abs(quant_min));
  const Tensor error_above = above.abs().neg().add(std::abs(quant_max));
  Tensor zero_point = at::where(error_below.lt(error_above), below.neg().add(quant_min), above.neg().add(quant_max));
  if (symmetric) zero_point = zero_point.masked_fill(has_both_signs, static_cast<double>(quant_min + quant_max) / 2);
  return {scale, zero_point.clamp(quant_min, quant_max).round()};
}

}  // namespace

std::tuple<Tensor, Tensor> moving_average_fake_quantize(const Tensor& self, const Tensor& observer_on,
                                                        const Tensor& fake_quant_on, Tensor& running_min,
                                                        Tensor& running_max, Tensor& scale, Tensor& zero_point,
                                                        double averaging_const, int64_t quant_min, int64_t quant_max,
                                                        int64_t ch_axis, bool per_row, bool symmetric) {
  TORCH_CHECK(!per_row || (ch_axis == 0 && self.dim() > 0),
              "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0, got axis ",
              ch_axis, " of ", self.dim(), " dimensions");
  const Tensor observes = is_on(observer_on, "observer_on", self);
  const Tensor quantizes = is_on(fake_quant_on, "fake_quant_on", self);
  if (per_row && running_min.numel() == 0 && observes.item<bool>()) {
    running_min.resize_({self.size(0)}).fill_(std::numeric_limits<double>::infinity());
    running_max.resize_({self.size(0)}).fill_(-std::numeric_limits<double>::infinity());
    scale.resize_({self.size(0)});
    zero_point.resize_({self.size(0)});
  }
  const auto [low, high] = per_row ? at::aminmax(self.reshape({self.size(0), -1}), 1) : at::aminmax(self);
  if (running_min.numel() > 0) {
    average(running_min, low, observes, averaging_const);
    average(running_max, high, observes, averaging_const);
  }
  const Parameters chosen = choose(running_min, running_max, quant_min, quant_max, symmetric);
  scale.copy_(at::where(quantizes, chosen.scale.to(scale.scalar_type()).reshape(scale.sizes()), scale));
  zero_point.copy_(
      at::where(quantizes, chosen.zero_point.to(zero_point.scalar_type()).reshape(zero_point.sizes()), zero_point));
  if (!per_row)
    return at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(self, scale, zero_point,
                                                                         quantizes.to(at::kLong), quant_min, quant_max);
  auto [out, mask] =
      at::fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, ch_axis, quant_min, quant_max);
  return {at::where(quantizes, out, self), mask.logical_or(quantizes.logical_not())};
}

}  // namespace atalla::aten
