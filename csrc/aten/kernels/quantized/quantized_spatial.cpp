// SPDX-License-Identifier: BSD-3-Clause
//
// Pooling, padding and resampling of quantized images: the dense ops, of the integers as real numbers. Maxima, padding
// and nearest elements are exact. Means are those of PyTorch's kernels for the CPU: multiples of the scale, rounded.
#include "aten/kernels/quantized/quantized.h"

namespace atalla::aten {

namespace {

// f of the integers, whose values are integers again.
template <class F>
Tensor of_integers(const char* op, const Tensor& self, const F& f) {
  check_per_tensor(op, self);
  return quantized_integers(f(real_integers(self)), self);
}

// f of the multiples of the scale, rounded.
template <class F>
Tensor of_steps(const char* op, const Tensor& self, const F& f) {
  check_per_tensor(op, self);
  return quantized_steps(f(steps_of(self)), self);
}

}  // namespace

Tensor quantized_max_pool1d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                            IntArrayRef dilation, bool ceil_mode) {
  return of_integers("quantized_max_pool1d", self, [&](const Tensor& x) {
    return at::max_pool1d(x, kernel_size, stride, padding, dilation, ceil_mode);
  });
}
Tensor quantized_max_pool2d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                            IntArrayRef dilation, bool ceil_mode) {
  return of_integers("quantized_max_pool2d", self, [&](const Tensor& x) {
    return at::max_pool2d(x, kernel_size, stride, padding, dilation, ceil_mode);
  });
}
Tensor quantized_max_pool3d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                            IntArrayRef dilation, bool ceil_mode) {
  return of_integers("quantized_max_pool3d", self, [&](const Tensor& x) {
    return at::max_pool3d(x, kernel_size, stride, padding, dilation, ceil_mode);
  });
}

Tensor quantized_avg_pool2d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                            bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override) {
  return of_steps("avg_pool2d", self, [&](const Tensor& x) {
    return at::avg_pool2d(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
  });
}
Tensor quantized_avg_pool3d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                            bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override) {
  return of_steps("avg_pool3d", self, [&](const Tensor& x) {
    return at::avg_pool3d(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
  });
}

Tensor quantized_adaptive_avg_pool2d(const Tensor& self, IntArrayRef output_size) {
  return of_steps("adaptive_avg_pool2d", self,
                  [&](const Tensor& x) { return at::adaptive_avg_pool2d(x, output_size); });
}
Tensor quantized_adaptive_avg_pool3d(const Tensor& self, IntArrayRef output_size) {
  return of_steps("adaptive_avg_pool3d", self,
                  [&](const Tensor& x) { return at::adaptive_avg_pool3d(x, output_size); });
}
Tensor& quantized_adaptive_avg_pool3d_out(const Tensor& self, IntArrayRef output_size, Tensor& out) {
  return quantized_result(quantized_adaptive_avg_pool3d(self, output_size), out);
}

Tensor quantized_upsample_nearest2d(const Tensor& self, IntArrayRef output_size, std::optional<double> scales_h,
                                    std::optional<double> scales_w) {
  return of_integers("upsample_nearest2d", self,
                     [&](const Tensor& x) { return at::upsample_nearest2d(x, output_size, scales_h, scales_w); });
}
Tensor quantized_upsample_nearest_exact2d(const Tensor& self, IntArrayRef output_size, std::optional<double> scales_h,
                                          std::optional<double> scales_w) {
  return of_integers("_upsample_nearest_exact2d", self, [&](const Tensor& x) {
    return at::_upsample_nearest_exact2d(x, output_size, scales_h, scales_w);
  });
}
Tensor quantized_upsample_nearest3d(const Tensor& self, IntArrayRef output_size, std::optional<double> scales_d,
                                    std::optional<double> scales_h, std::optional<double> scales_w) {
  return of_integers("upsample_nearest3d", self, [&](const Tensor& x) {
    return at::upsample_nearest3d(x, output_size, scales_d, scales_h, scales_w);
  });
}
Tensor quantized_upsample_nearest_exact3d(const Tensor& self, IntArrayRef output_size, std::optional<double> scales_d,
                                          std::optional<double> scales_h, std::optional<double> scales_w) {
  return of_integers("_upsample_nearest_exact3d", self, [&](const Tensor& x) {
    return at::_upsample_nearest_exact3d(x, output_size, scales_d, scales_h, scales_w);
  });
}
Tensor quantized_upsample_bilinear2d(const Tensor& self, IntArrayRef output_size, bool align_corners,
                                     std::optional<double> scales_h, std::optional<double> scales_w) {
  return of_steps("upsample_bilinear2d", self, [&](const Tensor& x) {
    return at::upsample_bilinear2d(x, output_size, align_corners, scales_h, scales_w);
  });
}

Tensor quantized_grid_sampler_2d(const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                                 int64_t padding_mode, bool align_corners) {
  return of_steps("grid_sampler_2d", input, [&](const Tensor& x) {
    return at::grid_sampler_2d(x, grid.to(x.scalar_type()), interpolation_mode, padding_mode, align_corners);
  });
}

Tensor& quantized_reflection_pad1d_out(const Tensor& self, IntArrayRef padding, Tensor& out) {
  return quantized_result(
      of_integers("reflection_pad1d", self, [&](const Tensor& x) { return at::reflection_pad1d(x, padding); }), out);
}
Tensor quantized_reflection_pad2d(const Tensor& self, IntArrayRef padding) {
  return of_integers("reflection_pad2d", self, [&](const Tensor& x) { return at::reflection_pad2d(x, padding); });
}
Tensor& quantized_reflection_pad2d_out(const Tensor& self, IntArrayRef padding, Tensor& out) {
  return quantized_result(quantized_reflection_pad2d(self, padding), out);
}

Tensor quantized_channel_shuffle(const Tensor& self, int64_t groups) {
  check_per_tensor("channel_shuffle", self);
  return quantized_over(at::channel_shuffle(integers_of(self), groups), self);
}

}  // namespace atalla::aten
