// SPDX-License-Identifier: BSD-3-Clause
//
// What every convolution kernel checks of its operands, whose sizes and dtypes a descriptor claims.
#pragma once

#include "sim/kernels/convolution/shape.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr uint64_t kConvolutionDtypes = 1u << ATALLA_U8 | 1u << ATALLA_I8 | 1u << ATALLA_I16 | 1u << ATALLA_I32 |
                                               1u << ATALLA_I64 | 1u << ATALLA_F16 | 1u << ATALLA_F32 |
                                               1u << ATALLA_F64 | 1u << ATALLA_BF16;

inline bool has_operand(const Launch& launch, int i) { return i < launch.desc.n_operands && launch.data[i] != nullptr; }

// The shapes are those of the contract. `name` is the kernel's.
inline atalla_status check_convolution(const Launch& launch, const char* name) {
  using LongLong = long long;
  using Operands = ConvolutionOperands;
  const atalla_launch_desc& desc = launch.desc;
  auto supported = [](atalla_dtype d) { return d < 64 && ((kConvolutionDtypes >> d) & 1) != 0; };
  if (!supported(desc.compute_dtype)) {
    return set_error(ATALLA_ERR_UNSUPPORTED, "%s: compute dtype code %d is not supported", name,
                     int{desc.compute_dtype});
  }
  const atalla_operand &out = launch.operand(Operands::kOut), &in = launch.operand(Operands::kInput),
                       &weight = launch.operand(Operands::kWeight);
  const int ndim = in.ndim;
  if (ndim < 3 || ndim > 5 || out.ndim != ndim || weight.ndim != ndim) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: out, in and weight have %d, %d and %d dimensions, expected 3 to 5", name,
                     int{out.ndim}, ndim, int{weight.ndim});
  }
  for (int i = 0; i < desc.n_operands; ++i) {
    if (i >= Operands::kBias && !has_operand(launch, i)) continue;
    if (!supported(launch.operand(i).dtype)) {
      return set_error(ATALLA_ERR_UNSUPPORTED, "%s: operand %d has dtype code %d, which is not supported", name, i,
                       int{launch.operand(i).dtype});
    }
  }
  const ConvolutionShape s = convolution_shape(desc);
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: %lld input and %lld output channels in %lld groups", name,
                     LongLong{s.in_channels}, LongLong{s.out_channels}, LongLong{s.groups});
  }
  for (int d = kSpatial - (ndim - 2); d < kSpatial; ++d) {
    if (s.stride[d] < 1 || s.dilation[d] < 1 || s.kernel[d] < 1) {
      return set_error(ATALLA_ERR_ARGUMENT, "%s: kernel %lld, stride %lld, dilation %lld; expected at least 1", name,
                       LongLong{s.kernel[d]}, LongLong{s.stride[d]}, LongLong{s.dilation[d]});
    }
  }
  return ATALLA_OK;
}

}  // namespace atalla::sim::ATALLA_ISA
