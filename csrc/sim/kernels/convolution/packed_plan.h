// SPDX-License-Identifier: BSD-3-Clause
//
// How convolution_packed cuts its work: k into chunks as `convolution` does, so that sums have the same order; outputs
// into slabs whose inputs and partial sums stay in the second-level cache; slabs into tiles of the micro-kernel.
#pragma once

#include "sim/kernels/convolution/packed_micro.h"
#include "sim/kernels/convolution/plan.h"

namespace atalla::sim::ATALLA_ISA {

struct PackedPlan {
  int64_t depth;     // of k in a chunk; the last one may be shorter
  int64_t chunks;    // of k
  int64_t channels;  // that a chunk touches, at most
  int64_t size;      // of the output along the axis of the slabs
  int64_t outputs;   // of a slab along it
  int64_t slabs;
  int64_t panels;  // of output channels
  int64_t blocks;  // ranges of panels, for the threads
};

inline constexpr int64_t kSumBytes = 256 << 10;  // of a slab's partial sums
// Each slab reads the weights once: with fewer outputs than this, reading them would take longer than computing.
inline constexpr int64_t kSlabOutputs = 16 * kMaxRows;

inline PackedPlan plan_packed(const ConvolutionShape& s) {
  const SlabPlan direct = plan_slabs<float>(s);
  PackedPlan plan{};
  plan.size = direct.size;
  plan.panels = ceil_div(s.out_channels, kStoredPanel);
  if (direct.pays) {
    plan.depth = direct.channels * s.taps();
    plan.channels = direct.channels;
  } else {
    plan.depth = block_depth<float>(s.depth());
    plan.channels = min_of(s.in_channels, ceil_div(plan.depth, s.taps()) + 1);
  }
  plan.chunks = ceil_div(s.depth(), plan.depth);
  const SlabShape whole = slab_shape(s, INT64_MAX);
  const int64_t pitch = whole.pitch[whole.axis], row = plan.channels * pitch * (whole.channel / whole.plane);
  int64_t fit = kSlabBytes / 4 / max_of(1, row) - (whole.extent[whole.axis] - plan.size);
  const int64_t width = s.positions() / plan.size;  // outputs of one coordinate along the axis
  if (plan.chunks > 1) fit = min_of(fit, kSumBytes / 4 / (plan.panels * kStoredPanel * width));
  fit = max_of(fit, ceil_div(kSlabOutputs, width));
  plan.slabs = ceil_div(plan.size, min_of(fit, plan.size));
  plan.outputs = ceil_div(plan.size, plan.slabs);
  if (whole.axis < 2 && s.out[2] <= kPairedWidth) plan.outputs = min_of(plan.size, round_up(plan.outputs, 2));
  plan.slabs = ceil_div(plan.size, plan.outputs);
  const int64_t units = s.batch * plan.slabs;
  plan.blocks = units >= 8 ? 1 : min_of(ceil_div(8, units), plan.panels);
  return plan;
}

// `width` outputs of a row of the image, or of each of two rows.
struct PatchPiece {
  int32_t image;   // elements from the slab's beginning to the input of the first output
  int32_t second;  // from there to the input of the second row's first output; 0: one row
  int32_t width;
  int32_t position;  // of the first output in the slab; the others follow it
};

// Pieces of a slab with `count` outputs along the axis; at most one for each output. Returns their number.
inline int64_t list_patches(const SlabShape& slab, int64_t count, PatchPiece* pieces) {
  int64_t sizes[kSpatial];
  for (int d = 0; d < kSpatial; ++d) sizes[d] = d == slab.axis ? count : slab.outputs[d];
  int64_t rows = sizes[0] * sizes[1], width = sizes[2];
  // Rows that adjoin in the slab are one row.
  bool adjoin = slab.extent[2] == width;
  if (adjoin && sizes[0] > 1) adjoin = slab.extent[1] == sizes[1];
  if (adjoin) width *= rows, rows = 1;
  auto start = [&](int64_t row) { return row / sizes[1] * slab.pitch[0] + row % sizes[1] * slab.pitch[1]; };
  int64_t n = 0;
  for (int64_t row = 0; row < rows;) {
    const bool paired = width <= kPairedWidth && row + 1 < rows;
    const int64_t cuts = ceil_div(width, kMaxRows);
    for (int64_t cut = 0, x = 0; cut < cuts; ++cut) {
      const int64_t length = width / cuts + (cut < width % cuts);
      const int64_t at = start(row);
      pieces[n++] = {static_cast<int32_t>(at + x), static_cast<int32_t>(paired ? start(row + 1) - at : 0),
                     static_cast<int32_t>(length), static_cast<int32_t>(row * width + x)};
      x += length;
    }
    row += paired ? 2 : 1;
  }
  return n;
}

}  // namespace atalla::sim::ATALLA_ISA
