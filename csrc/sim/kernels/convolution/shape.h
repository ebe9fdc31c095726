// SPDX-License-Identifier: BSD-3-Clause
//
// Geometry of a convolution. One to three spatial dimensions are treated as three: missing outer ones have size 1.
#pragma once

#include "sim/kernels/matrix/gemm_pack.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int kSpatial = 3;

struct ConvolutionShape {
  int64_t batch, out_channels, in_channels, groups;
  int64_t in[kSpatial], out[kSpatial], kernel[kSpatial];
  int64_t stride[kSpatial], padding[kSpatial], dilation[kSpatial];

  int64_t positions() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_per_group() const { return in_channels / groups; }
  int64_t out_per_group() const { return out_channels / groups; }
  int64_t depth() const { return in_per_group() * taps(); }  // k of the implicit matrix product
};

// A tensor [d0, d1, spatial...] with its strides in elements.
struct ConvolutionTensor {
  const char* data;
  atalla_dtype dtype;
  int64_t item;
  int64_t strides[2 + kSpatial];

  const char* at(int64_t d0, int64_t d1) const { return data + (d0 * strides[0] + d1 * strides[1]) * item; }
};

// What is read from the descriptor, whatever its number of spatial dimensions; operand sizes must have been checked.
inline ConvolutionShape convolution_shape(const atalla_launch_desc& desc) {
  using Operands = ConvolutionOperands;
  const atalla_operand &out = desc.operands[Operands::kOut], &in = desc.operands[Operands::kInput],
                       &weight = desc.operands[Operands::kWeight];
  const int dims = in.ndim - 2, skip = kSpatial - dims;
  const ConvolutionParameters p = ConvolutionParameters::read(desc);
  ConvolutionShape s;
  s.batch = in.sizes[0], s.in_channels = in.sizes[1], s.out_channels = out.sizes[1], s.groups = p.groups;
  for (int d = 0; d < kSpatial; ++d) {
    const bool real = d >= skip;
    const int i = d - skip;
    s.in[d] = real ? in.sizes[2 + i] : 1;
    s.out[d] = real ? out.sizes[2 + i] : 1;
    s.kernel[d] = real ? weight.sizes[2 + i] : 1;
    s.stride[d] = real ? p.stride[i] : 1;
    s.padding[d] = real ? p.padding[i] : 0;
    s.dilation[d] = real ? p.dilation[i] : 1;
  }
  return s;
}

inline ConvolutionTensor convolution_tensor(const atalla_operand& o, const void* data) {
  ConvolutionTensor t{static_cast<const char*>(data), o.dtype, dtype_size(o.dtype), {}};
  const int skip = kSpatial - (o.ndim - 2);
  t.strides[0] = o.strides[0], t.strides[1] = o.strides[1];
  for (int d = 0; d < kSpatial; ++d) t.strides[2 + d] = d >= skip ? o.strides[2 + d - skip] : 0;
  return t;
}

// The outputs [begin, end) of `count` along one dimension whose input, offset by a tap, lies inside the image:
// 0 <= o * stride + shift < size.
inline void inside_range(int64_t count, int64_t stride, int64_t shift, int64_t size, int64_t& begin, int64_t& end) {
  begin = shift >= 0 ? 0 : ceil_div(-shift, stride);
  end = shift >= size ? 0 : (size - 1 - shift) / stride + 1;
  begin = min_of(begin, count);
  end = max_of(begin, min_of(end, count));
}

}  // namespace atalla::sim::ATALLA_ISA
