// SPDX-License-Identifier: BSD-3-Clause
//
// What a convolution costs on the chip.
#pragma once

#include <algorithm>

#include "sim/kernels/convolution/shape.h"
#include "sim/kernels/matrix/gemm_cost.h"
#include "sim/kernels/pointwise/vector_program.h"

namespace atalla::sim::ATALLA_ISA {

// The patch of a result, as runs of neighbouring elements.
struct Runs {
  int64_t count, length;
};

inline bool has_whole_tiles(const atalla_geometry& chip, const ConvolutionShape& s) {
  return s.in_per_group() >= chip.vector_lanes && s.in_per_group() % chip.vector_lanes == 0;
}

inline Runs runs_of(const atalla_geometry& chip, const ConvolutionShape& s) {
  if (has_whole_tiles(chip, s) || s.dilation[2] != 1 || s.groups != 1) return {s.taps(), s.in_per_group()};
  return {s.taps() / max_of(1, s.kernel[2]), s.kernel[2] * s.in_per_group()};
}

// True if code first copies an image whose patches come run by run: to pad it, to bring channels innermost, or because
// the last tile of a run would reach behind the image, where it has no room.
inline bool is_copied(const atalla_geometry& chip, const ConvolutionShape& s, const atalla_operand& image) {
  const int64_t channels = s.in_per_group() * s.groups;
  if (s.padding[0] != 0 || s.padding[1] != 0 || s.padding[2] != 0) return true;
  if (image.strides[1] != 1 || s.stride[2] * channels <= 1) return true;
  const bool room = image.strides[0] > channels * s.in[0] * s.in[1] * s.in[2];
  return !room && runs_of(chip, s).length % chip.vector_lanes != 0;
}

// Bytes of an image that the SDMA reads for one group. With channels in whole vectors, its lines stay in scratchpad
// 0, a row a pixel and tile; where they do not fit, bands of output lines read the lines between them again. Other
// images are padded, and brought into the order of pixels, by a copy; their patches come run by run: a row of taps, or
// a tap where those are no run.
inline uint64_t image_bytes_read(const atalla_geometry& chip, const ConvolutionShape& s, int64_t item, bool copied) {
  constexpr int64_t kStaging = kStageRows + 32;  // rows of scratchpad 0 for results and a border
  const int64_t lanes = chip.vector_lanes, depth = tile_depth(chip);
  const int64_t rows = static_cast<int64_t>(chip.scratchpad_bytes) / (lanes * chip.sdma_element_bytes);
  const int64_t channels = s.in_per_group();
  const int64_t bytes = channels * s.in[0] * s.in[1] * s.in[2] * item;
  if (has_whole_tiles(chip, s)) {
    const int64_t width = max_of(1, (s.in[2] + 2 * s.padding[2]) * (channels / lanes));
    const int64_t window = (s.kernel[1] - 1) * s.dilation[1] + 1, stride = max_of(1, s.stride[1]);
    const int64_t lines = max_of(1, ((rows - kStaging) / width - window) / stride + 1);
    const int64_t bands = ceil_div(s.out[0] * s.out[1], lines);
    const int64_t again = (bands - 1) * max_of(0, window - stride);
    return static_cast<uint64_t>(bytes + again * (bytes / max_of(1, s.in[0] * s.in[1])));
  }
  const Runs runs = runs_of(chip, s);
  const int64_t patches = s.positions() * runs.count * ceil_div(runs.length, depth) * depth * item;
  return static_cast<uint64_t>(patches + (copied ? 2 * bytes : 0));
}

// Positions stream through the array as rows, the weight [depth, co] is stationary. A depthwise group would use one
// column of the array: its products are the multiplier's, a vector of channels at a time, and their sums pass the array
// with the identity as weights, so that they are kept in FP32.
inline void convolution_cost(const atalla_launch_desc& desc, const ConvolutionShape& s, Cost& cost) {
  if (s.groups < 1 || s.batch * s.out_channels * s.positions() <= 0) return;
  const uint64_t images = static_cast<uint64_t>(s.batch) * static_cast<uint64_t>(s.groups);
  using Operands = ConvolutionOperands;
  const atalla_operand& image = desc.operands[Operands::kInput];
  const int64_t in_item = dtype_size(image.dtype);
  const int64_t weight_item = dtype_size(desc.operands[Operands::kWeight].dtype);
  const int64_t positions = s.positions(), depth = s.depth(), co = s.out_per_group();
  const int64_t image_bytes = s.in_per_group() * s.in[0] * s.in[1] * s.in[2] * in_item;
  const uint64_t vectors = static_cast<uint64_t>(s.batch * s.out_channels) * cost.vectors(positions);
  if (co == 1) {
    const uint64_t computed = cost.vectors(s.batch * s.out_channels * ceil_div(positions, max_of(1, s.out[2]))) *
                              cost.computed_rows(s.out[2]);
    cost.vector_ops = cost.array_rows = computed * static_cast<uint64_t>(depth);
    const auto line = std::max<uint64_t>(1, std::min<uint64_t>(cost.computed_rows(s.out[2]), cost.chip.sdma_tile_rows));
    cost.packets = cost.array_rows / 2 + cost.array_waits(cost.array_rows / line, 2 * line + 18);
    cost.weight_rows = cost.chip.vector_lanes;
    cost.bytes_read = images * static_cast<uint64_t>(image_bytes + depth * weight_item);
  } else {
    // Each run fills whole tiles. A block of the result has whole lines.
    const Runs runs = runs_of(cost.chip, s);
    const int64_t tile = tile_depth(cost.chip), padded = runs.count * ceil_div(runs.length, tile) * tile;
    const Passes pass = passes_of(cost.chip, co, padded, s.out[2]);
    const int64_t lines = max_of(1, pass.block_tiles * tile / max_of(1, s.out[2]));
    const ArrayProduct product = array_product(cost.chip, positions, co, padded, in_item, weight_item, false,
                                               ceil_div(s.out[0] * s.out[1], lines), 0, s.out[2]);
    cost.macs = static_cast<uint64_t>(positions * co * depth) * images;
    // Code goes from line to line for each run of a patch.
    const int64_t lines_of_runs = 2 * runs.count * ceil_div(co, pass.width) * s.out[0] * s.out[1];
    cost.packets = (product.packets + static_cast<uint64_t>(lines_of_runs)) * images;
    cost.array_rows = product.array_rows * images;
    cost.weight_rows = product.weight_rows * images;
    const bool copied = is_copied(cost.chip, s, image), whole = has_whole_tiles(cost.chip, s);
    cost.bytes_read = images * (image_bytes_read(cost.chip, s, in_item, copied) + product.b_bytes);
    if (copied && !whole && image.strides[1] != 1 && s.in_per_group() > 2) {
      const auto lines = static_cast<uint64_t>(s.in[0] * s.in[1]), width = static_cast<uint64_t>(s.in[2]);
      const bool padded_lines = s.padding[0] != 0 || s.padding[1] != 0 || s.padding[2] != 0;
      const auto channels = static_cast<uint64_t>(s.in_per_group());
      cost.transpose(images * (padded_lines ? lines : 1), padded_lines ? width : lines * width, channels);
    }
  }
  const auto given = [&](int index) { return desc.n_operands > index && desc.operands[index].addr != 0; };
  if (given(Operands::kBias)) {
    cost.bytes_read += operand_bytes(desc.operands[Operands::kBias]);
    cost.vector_ops += vectors;
    if (co != 1) hide_stores(vectors, /*program=*/false, cost);
  }
  if (given(Operands::kOutside)) cost.bytes_read += operand_bytes(desc.operands[Operands::kOutside]);
  cost.bytes_written = static_cast<uint64_t>(s.batch * s.out_channels * positions) *
                       static_cast<uint64_t>(dtype_size(desc.operands[Operands::kOut].dtype));
}

// Adds the cost of a program that ends such a launch: its other operands, whose inputs begin at `first_extra`, and its
// instructions.
inline void convolution_program_cost(const atalla_launch_desc& desc, int first_extra, const ConvolutionShape& s,
                                     Cost& cost) {
  for (int i = 1; i < desc.n_outputs; ++i) cost.bytes_written += operand_bytes(desc.operands[i]);
  for (int i = first_extra; i + 1 < desc.n_operands; ++i) cost.bytes_read += operand_bytes(desc.operands[i]);
  const ConvolutionFusedParameters p = ConvolutionFusedParameters::read(desc);
  cost_vector_program(s.batch * s.out_channels * s.positions(), p.vector_ops, p.exp_ops, cost);
}

}  // namespace atalla::sim::ATALLA_ISA
