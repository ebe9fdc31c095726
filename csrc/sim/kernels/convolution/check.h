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

// out, in, weight, perhaps a bias and the value outside of the input; `name` is the kernel's.
inline atalla_status check_convolution(const Launch& launch, const char* name) {
  using LongLong = long long;
  const atalla_launch_desc& desc = launch.desc;
  if (desc.n_outputs != 1 || desc.n_operands < 3 || desc.n_operands > 5) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: %d outputs of %d operands, expected 1 of 3 to 5", name,
                     int{desc.n_outputs}, int{desc.n_operands});
  }
  auto supported = [](atalla_dtype d) { return d < 64 && ((kConvolutionDtypes >> d) & 1) != 0; };
  if (!supported(desc.compute_dtype)) {
    return set_error(ATALLA_ERR_UNSUPPORTED, "%s: compute dtype code %d is not supported", name,
                     int{desc.compute_dtype});
  }
  const atalla_operand &out = launch.operand(0), &in = launch.operand(1), &weight = launch.operand(2);
  const int ndim = in.ndim;
  if (ndim < 3 || ndim > 5 || out.ndim != ndim || weight.ndim != ndim) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: out, in and weight have %d, %d and %d dimensions, expected 3 to 5", name,
                     int{out.ndim}, ndim, int{weight.ndim});
  }
  const bool has_bias = has_operand(launch, 3);
  for (int i = 0; i < desc.n_operands; ++i) {
    if (i >= 3 && !has_operand(launch, i)) continue;
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
  if (out.sizes[0] != s.batch || weight.sizes[0] != s.out_channels || weight.sizes[1] != s.in_per_group()) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "%s: batch %lld and weight [%lld, %lld, ...], expected batch %lld and weight [%lld, %lld, ...]",
                     name, LongLong{out.sizes[0]}, LongLong{weight.sizes[0]}, LongLong{weight.sizes[1]},
                     LongLong{s.batch}, LongLong{s.out_channels}, LongLong{s.in_per_group()});
  }
  for (int d = kSpatial - (ndim - 2); d < kSpatial; ++d) {
    if (s.stride[d] < 1 || s.dilation[d] < 1 || s.kernel[d] < 1) {
      return set_error(ATALLA_ERR_ARGUMENT, "%s: kernel %lld, stride %lld, dilation %lld; expected at least 1", name,
                       LongLong{s.kernel[d]}, LongLong{s.stride[d]}, LongLong{s.dilation[d]});
    }
  }
  if (has_bias && (launch.operand(3).ndim != 1 || launch.operand(3).sizes[0] != s.out_channels)) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: bias has %d dimensions and %lld elements, expected 1 and %lld", name,
                     int{launch.operand(3).ndim}, LongLong{launch.operand(3).sizes[0]}, LongLong{s.out_channels});
  }
  if (has_operand(launch, 4) && launch.operand(4).ndim != 0) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: the value outside of the input has %d dimensions, expected none", name,
                     int{launch.operand(4).ndim});
  }
  return ATALLA_OK;
}

}  // namespace atalla::sim::ATALLA_ISA
