// SPDX-License-Identifier: BSD-3-Clause
//
// Convolutions of 3 x 3 taps by Winograd's minimal filtering F(2 x 2, 3 x 3): 16 products for four outputs and an input
// channel instead of 36. Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, has the formulas.
//
// The shape alone decides which convolutions take this path, so that `convolution` and `convolution_packed` give the
// same bits, for every batch size and number of threads.
#pragma once

#include "sim/kernels/convolution/plan.h"

namespace atalla::sim::ATALLA_ISA {

struct WinogradConvolution {
  ConvolutionShape shape;
  ConvolutionTensor in, out;
  const float* weight = nullptr;  // [co, ci, 9], or packed in panels [ci, 9, kStoredPanel]
  bool packed = false;
  const char* bias = nullptr;
  atalla_dtype bias_dtype = ATALLA_F32;
  int64_t bias_stride = 0;
  const ConvolutionFinish* finish = nullptr;
};

// Channels and outputs are enough to pay for the transforms, and outputs for those of the weights.
inline bool winograd_pays(const ConvolutionShape& s) {
  constexpr int64_t kChannels = 32, kTiles = 36;
  const bool taps = s.kernel[0] == 1 && s.kernel[1] == 3 && s.kernel[2] == 3 && s.in[0] == 1 && s.out[0] == 1;
  bool plain = s.groups == 1 && s.padding[0] == 0;
  for (int d = 0; d < kSpatial; ++d) plain = plain && s.stride[d] == 1 && s.dilation[d] == 1;
  return taps && plain && s.in_channels >= kChannels && s.out_channels >= kChannels &&
         ceil_div(s.out[1], 2) * ceil_div(s.out[2], 2) >= kTiles;
}

enum class WinogradEnd {
  kDone,
  kNoMemory,
  // A result is not finite: differences of infinities are NaN, and those of large inputs overflow. The caller computes
  // the outputs again, in the direct way.
  kNotFinite,
};

WinogradEnd run_winograd(const WinogradConvolution& conv);

}  // namespace atalla::sim::ATALLA_ISA
