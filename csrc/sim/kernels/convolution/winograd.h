// SPDX-License-Identifier: BSD-3-Clause
//
// Convolutions of 3 x 3 taps by Winograd's minimal filtering (winograd_tile.h): for an input channel, F(2 x 2, 3 x 3)
// has 16 products for four outputs instead of 36, and F(4 x 4, 3 x 3) has 36 for sixteen instead of 144.
//
// The shape alone decides which convolutions take this path, so that `convolution` and `convolution_packed` give the
// same bits, for every batch size and number of threads.
#pragma once

#include "sim/kernels/convolution/plan.h"

namespace atalla::sim::ATALLA_ISA {

// A convolution of F32.
struct FloatConvolution {
  ConvolutionShape shape;
  ConvolutionTensor in, out;
  const float* weight = nullptr;  // [co, depth], or packed in panels [depth, kStoredPanel]
  bool packed = false;
  ConvolutionBias bias;
  const ConvolutionFinish* finish = nullptr;
};

// Outputs along a side of a tile; 0: the direct sum is better. There must be enough tiles to pay for the transforms of
// the weights. Those of 36 points are four times as large as the weights, and leave the second-level cache sooner.
inline int winograd_outputs(const ConvolutionShape& s) {
  constexpr int64_t kChannels = 32, kSmallTiles = 36, kLargeTiles = 49;
  const bool taps = s.kernel[0] == 1 && s.kernel[1] == 3 && s.kernel[2] == 3 && s.in[0] == 1 && s.out[0] == 1;
  bool plain = s.groups == 1 && s.padding[0] == 0;
  for (int d = 0; d < kSpatial; ++d) plain = plain && s.stride[d] == 1 && s.dilation[d] == 1;
  if (!taps || !plain || s.in_channels < kChannels || s.out_channels < kChannels) return 0;
  const int64_t large = ceil_div(s.out[1], 4) * ceil_div(s.out[2], 4);
  if (large >= kLargeTiles && 4 * large >= s.in_channels && 4 * large >= s.out_channels) return 4;
  return ceil_div(s.out[1], 2) * ceil_div(s.out[2], 2) >= kSmallTiles ? 2 : 0;
}

enum class WinogradEnd {
  kDone,
  kNoMemory,
  // A result is not finite: differences of infinities are NaN, and those of large inputs overflow. The caller computes
  // the outputs again, in the direct way.
  kNotFinite,
};

WinogradEnd run_winograd(const FloatConvolution& conv);

}  // namespace atalla::sim::ATALLA_ISA
