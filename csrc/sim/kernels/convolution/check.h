// SPDX-License-Identifier: BSD-3-Clause
//
// What every convolution kernel checks of its operands, whose sizes and dtypes a descriptor claims.
#pragma once

#include "sim/kernels/convolution/shape.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr uint64_t kConvolutionDtypes = kRealDtypes & ~dtype_bit(ATALLA_BOOL);

inline bool has_operand(const Launch& launch, int i) { return i < launch.desc.n_operands && launch.data[i] != nullptr; }

// The shapes are those of the contract. `name` is the kernel's.
inline atalla_status check_convolution(const Launch& launch) {
  using Operands = ConvolutionOperands;
  const atalla_launch_desc& desc = launch.desc;
  const atalla_operand &out = launch.operand(Operands::kOut), &in = launch.operand(Operands::kInput),
                       &weight = launch.operand(Operands::kWeight);
  const int ndim = in.ndim;
  if (ndim < 3 || ndim > 5 || out.ndim != ndim || weight.ndim != ndim) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "out, in and weight have {}, {} and {} dimensions, expected 3 to 5",
                out.ndim, ndim, weight.ndim);
  }
  for (int i = 0; i < desc.n_operands; ++i) {
    if (i >= Operands::kBias && !has_operand(launch, i)) continue;
    if ((kConvolutionDtypes >> launch.operand(i).dtype & 1) == 0) {
      return fail(launch, ATALLA_ERR_UNSUPPORTED, "operand {} has dtype code {}, which is not supported", i,
                  launch.operand(i).dtype);
    }
  }
  const ConvolutionShape s = convolution_shape(desc);
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "{} input and {} output channels in {} groups", s.in_channels,
                s.out_channels, s.groups);
  }
  for (int d = kSpatial - (ndim - 2); d < kSpatial; ++d) {
    if (s.stride[d] < 1 || s.dilation[d] < 1 || s.kernel[d] < 1) {
      return fail(launch, ATALLA_ERR_ARGUMENT, "kernel {}, stride {}, dilation {}; expected at least 1", s.kernel[d],
                  s.stride[d], s.dilation[d]);
    }
  }
  return ATALLA_OK;
}

}  // namespace atalla::sim::ATALLA_ISA
