// SPDX-License-Identifier: BSD-3-Clause
//
// The part of an image that a slab of outputs sees, copied once: converted, with its padding, and split by the
// remainders of coordinates by the stride. In the copy every tap of the kernel is a shift: output position j finds the
// input of (channel, tap) at j + shift(channel, tap), so 32 neighbouring positions are one row of operand B, read in
// place, whatever stride and dilation are.
//
// Positions run over whole rows of the copy. Those at the end of a row, where a wider kernel's shift leads into the
// next row, are computed and dropped.
#pragma once

#include "sim/kernels/convolution/shape.h"
#include "sim/kernels/matrix/gemm_epilogue.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int64_t kPhases = 64;  // remainders along the last dimension that a slab can have

struct SlabShape {
  int axis = 0;                    // outputs are cut along this dimension; those before it have one output
  int64_t outputs[kSpatial];       // of a slab; along the axis at most
  int64_t phases[kSpatial];        // different remainders of the taps
  int64_t extent[kSpatial];        // of one phase's plane
  int64_t pitch[kSpatial];         // elements from one coordinate of a plane to the next
  int64_t plane = 0, channel = 0;  // elements of a phase and of a channel

  // Positions of a slab with `count` outputs along the axis, up to its last output.
  int64_t positions(int64_t count) const {
    int64_t last = 0;
    for (int d = 0; d < kSpatial; ++d) last += ((d == axis ? count : outputs[d]) - 1) * pitch[d];
    return last + 1;
  }
};

// Taps of dimension d take the phases in turn: the remainder of tap t is that of tap t % phases.
inline int64_t phase_count(const ConvolutionShape& s, int d) {
  int64_t n = 1;
  while (n < s.kernel[d] && n * s.dilation[d] % s.stride[d] != 0) ++n;
  return n;
}

// A slab has the outputs of `count` coordinates along the outermost dimension that has more than one.
inline SlabShape slab_shape(const ConvolutionShape& s, int64_t count) {
  SlabShape slab;
  slab.axis = s.out[0] > 1 ? 0 : s.out[1] > 1 ? 1 : 2;
  int64_t pitch = 1, phases = 1;
  for (int d = kSpatial - 1; d >= 0; --d) {
    slab.outputs[d] = d == slab.axis ? min_of(count, s.out[d]) : s.out[d];
    slab.phases[d] = phase_count(s, d);
    slab.extent[d] = slab.outputs[d] + (s.kernel[d] - 1) * s.dilation[d] / s.stride[d];
    slab.pitch[d] = pitch;
    pitch *= slab.extent[d];
    phases *= slab.phases[d];
  }
  slab.plane = pitch;
  slab.channel = pitch * phases;
  return slab;
}

// shifts[c * taps + t] for `channels` channels.
inline void slab_shifts(const ConvolutionShape& s, const SlabShape& slab, int64_t channels, int32_t* shifts) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t z = 0; z < s.kernel[0]; ++z) {
      for (int64_t y = 0; y < s.kernel[1]; ++y) {
        for (int64_t x = 0; x < s.kernel[2]; ++x) {
          const int64_t tap[] = {z, y, x};
          int64_t phase = 0, shift = 0;
          for (int d = 0; d < kSpatial; ++d) {
            phase = phase * slab.phases[d] + tap[d] % slab.phases[d];
            shift += tap[d] * s.dilation[d] / s.stride[d] * slab.pitch[d];
          }
          *shifts++ = static_cast<int32_t>(c * slab.channel + phase * slab.plane + shift);
        }
      }
    }
  }
}

// One row of a phase's plane: the inputs of coordinates x0, x0 + stride, ... along the last dimension. Whole vectors
// are stored: up to one beyond the row, where the next row comes to lie.
template <class T>
[[gnu::always_inline]] inline void copy_image_row(const ConvolutionShape& s, const ConvolutionTensor& in,
                                                  const char* row, int64_t x0, int64_t begin, int64_t end,
                                                  int64_t count, T outside, T* dst) {
  constexpr int64_t lanes = kLanes<T>;
  const int64_t step = s.stride[2] * in.strides[4], n = end - begin;
  const char* src = row + (x0 + begin * s.stride[2]) * in.strides[4] * in.item;
  const Vec<T> border = broadcast(outside);
  for (int64_t i = 0; i < begin; i += lanes) store_vector(dst + i, border);
  if (in.dtype == kNativeOf<T> && step == 1) {
    const T* from = reinterpret_cast<const T*>(src);
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) store_vector(dst + begin + i, load_vector(from + i));
    if (i < n) store_vector(dst + begin + i, load_some(from + i, n - i));
  } else if (n > 0) {
    load_run(src, in.dtype, step, n, dst + begin);
  }
  for (int64_t i = end; i < count; i += lanes) store_vector(dst + i, border);
}

// Copies `channels` channels of the image that begins at `image`, for outputs from `first` on along the axis.
template <class T>
void copy_slab(const ConvolutionShape& s, const SlabShape& slab, const ConvolutionTensor& in, const char* image,
               int64_t first, int64_t channels, T outside, T* dst) {
  const int64_t from[] = {slab.axis == 0 ? first : 0, slab.axis == 1 ? first : 0, slab.axis == 2 ? first : 0};
  // The input coordinate of row `r` of phase `p` along dimension d.
  auto coordinate = [&](int d, int64_t r, int64_t p) {
    return (from[d] + r) * s.stride[d] + p * s.dilation[d] % s.stride[d] - s.padding[d];
  };
  const int64_t width = slab.extent[2];
  int64_t begin[kPhases], end[kPhases];
  for (int64_t p = 0; p < slab.phases[2]; ++p) {
    inside_range(width, s.stride[2], coordinate(2, 0, p), s.in[2], begin[p], end[p]);
  }
  for (int64_t c = 0; c < channels; ++c, image += in.strides[1] * in.item) {
    for (int64_t p = 0; p < slab.phases[0] * slab.phases[1] * slab.phases[2]; ++p) {
      const int64_t px = p % slab.phases[2], py = p / slab.phases[2] % slab.phases[1];
      const int64_t pz = p / slab.phases[2] / slab.phases[1];
      const int64_t x0 = coordinate(2, 0, px);
      for (int64_t d = 0; d < slab.extent[0]; ++d) {
        const int64_t z = coordinate(0, d, pz);
        const bool inside = z >= 0 && z < s.in[0];
        int64_t y = coordinate(1, 0, py);
        const char* row = image + (z * in.strides[2] + y * in.strides[3]) * in.item;
        const int64_t step = s.stride[1] * in.strides[3] * in.item;
        for (int64_t h = 0; h < slab.extent[1]; ++h, y += s.stride[1], row += step, dst += width) {
          const bool here = inside && y >= 0 && y < s.in[1];
          copy_image_row(s, in, row, x0, begin[px], here ? end[px] : begin[px], width, outside, dst);
        }
      }
    }
  }
}

}  // namespace atalla::sim::ATALLA_ISA
