// SPDX-License-Identifier: BSD-3-Clause
//
// A slab of outputs as a matrix product whose operand B is read in place from the copied image (slab.h).
// Channels are cut into chunks, so that the copy of a chunk and the weights that meet it stay in the second-level
// cache; the cut depends on the shape alone, and so does the order of additions.
#pragma once

#include "sim/kernels/convolution/slab.h"
#include "sim/kernels/matrix/gemm_block.h"

namespace atalla::sim::ATALLA_ISA {

// What happens to outputs once they are complete: channels [c0, c1) of the whole output at positions [p0, p1).
struct ConvolutionFinish {
  void (*run)(const ConvolutionFinish& self, int64_t batch, int64_t c0, int64_t c1, int64_t p0, int64_t p1);
};

// A convolution adds these numbers to the outputs of each channel.
struct ConvolutionBias {
  const char* data = nullptr;  // null: nothing
  atalla_dtype dtype = ATALLA_F32;
  int64_t stride = 0;

  ConvolutionBias() = default;
  ConvolutionBias(const Launch& launch, int operand) : data(launch.ptr<const char>(operand)) {
    if (data != nullptr) dtype = launch.operand(operand).dtype, stride = launch.operand(operand).strides[0];
  }
  const char* at(int64_t channel) const { return data + channel * stride * dtype_size(dtype); }
  void load(int64_t channel, int64_t count, float* to) const {
    if (data != nullptr) load_run(at(channel), dtype, stride, count, to);
  }
};

// Everything that a range of outputs needs.
template <class T>
struct Convolution {
  ConvolutionShape shape;
  ConvolutionTensor out, in;
  const T* weight;  // [co, depth], row-major
  ConvolutionBias bias;
  atalla_dtype compute_dtype;
  T outside = T(0);  // the image beyond its borders
  bool flat_out;     // the positions of out lie at a single stride
  const ConvolutionFinish* finish = nullptr;

  // Of the channels from `channel` on: rows are channels, columns run along the last dimension.
  Epilogue<T> epilogue(int64_t batch, int64_t channel) const {
    Epilogue<T> e;
    e.compute_dtype = compute_dtype;
    e.out = {out.at(batch, channel), out.dtype, out.strides[1], column_stride(), out.item};
    if (bias.data != nullptr) {
      e.c = {bias.at(channel), bias.dtype, bias.stride, 0, static_cast<int64_t>(dtype_size(bias.dtype))};
      e.beta = T(1);
    }
    return e;
  }
  const char* image(int64_t batch, int64_t group) const { return in.at(batch, group * shape.in_per_group()); }
  // Between neighbouring positions, along the last dimension that has more than one.
  int64_t column_stride() const {
    if (shape.positions() == 1) return 1;
    return shape.out[2] > 1 ? out.strides[4] : shape.out[1] > 1 ? out.strides[3] : out.strides[2];
  }
  int64_t position_offset(int64_t position) const {
    const int64_t x = position % shape.out[2], y = position / shape.out[2] % shape.out[1];
    return position / shape.out[2] / shape.out[1] * out.strides[2] + y * out.strides[3] + x * out.strides[4];
  }
};

struct SlabPlan {
  bool pays;        // not so when most positions would be dropped
  int64_t size;     // of the output along the axis
  int64_t outputs;  // of a slab along it
  int64_t slabs;
  int64_t channels;  // of a chunk
  int64_t blocks;    // output channels of a group are cut into so many ranges for the threads
};

inline constexpr int64_t kSlabBytes = 256 << 10;  // of a chunk's copy: a quarter of the second-level cache
inline constexpr int64_t kSlabPanels = 4;         // at least, where there are as many

template <class T>
SlabPlan plan_slabs(const ConvolutionShape& s) {
  SlabPlan plan{};
  const int64_t chunks = max_of(1, ceil_div(s.depth(), kBlockDepth<T> * 5 / 4));
  plan.channels = max_of(1, ceil_div(s.in_per_group(), chunks));
  const SlabShape whole = slab_shape(s, INT64_MAX);
  const int64_t size = plan.size = s.out[whole.axis], positions = whole.positions(size);
  plan.pays = s.depth() > 0 && 4 * round_up(positions, kLanes<T>) <= 5 * round_up(s.positions(), kLanes<T>);
  const int64_t pitch = whole.pitch[whole.axis], row = plan.channels * pitch * (whole.channel / whole.plane);
  const int64_t fit = kSlabBytes / static_cast<int64_t>(sizeof(T)) / max_of(1, row) - (whole.extent[whole.axis] - size);
  const int64_t outputs = min_of(size, max_of(fit, ceil_div(kSlabPanels * kPanel<T>, pitch)));
  plan.slabs = ceil_div(size, outputs);
  plan.outputs = ceil_div(size, plan.slabs);
  plan.slabs = ceil_div(size, plan.outputs);
  if (plan.channels * slab_shape(s, plan.outputs).channel > INT32_MAX / 2 || whole.phases[2] > kPhases) {
    plan.pays = false;
  }
  const int64_t units = s.batch * s.groups * plan.slabs;
  plan.blocks = units >= 8 ? 1 : min_of(ceil_div(8, units), ceil_div(s.out_per_group(), 4 * kMaxRows));
  return plan;
}

// A run of outputs within a panel: `count` columns from `column` on lie at `offset` (elements) in the output.
struct SlabPiece {
  int32_t column, count;
  int64_t offset;
};

// Pieces of panel q are [first[q], first[q + 1]). Returns their number.
inline int64_t list_pieces(const SlabShape& slab, const ConvolutionTensor& out, int64_t column_stride, int64_t from,
                           int64_t count, int64_t panel, int32_t* first, SlabPiece* pieces) {
  const int64_t positions = slab.positions(count);
  int64_t n = 0, panels = 0;
  for (int64_t j = 0; j < positions;) {
    int64_t rest = j, offset = 0;
    bool inside = true;
    for (int d = 0; d < kSpatial - 1; ++d) {
      const int64_t at = rest / slab.pitch[d];
      rest %= slab.pitch[d];
      inside = inside && at < (d == slab.axis ? count : slab.outputs[d]);
      offset += (at + (d == slab.axis ? from : 0)) * out.strides[2 + d];
    }
    const int64_t width = slab.axis == 2 ? count : slab.outputs[2];
    for (; panels <= j / panel; ++panels) first[panels] = static_cast<int32_t>(n);
    if (!inside || rest >= width) {
      j += slab.extent[2] - rest;
      continue;
    }
    const int64_t run = min_of(width - rest, panel - j % panel);
    offset += (rest + (slab.axis == 2 ? from : 0)) * out.strides[4];
    SlabPiece* const last = n > first[panels - 1] ? &pieces[n - 1] : nullptr;
    if (last != nullptr && last->column + last->count == j % panel &&
        last->offset + last->count * column_stride == offset) {
      last->count += static_cast<int32_t>(run);  // without padding, rows of the output adjoin
    } else {
      pieces[n++] = {static_cast<int32_t>(j % panel), static_cast<int32_t>(run), offset};
    }
    j += run;
  }
  for (; panels <= ceil_div(positions, panel); ++panels) first[panels] = static_cast<int32_t>(n);
  return n;
}

}  // namespace atalla::sim::ATALLA_ISA
