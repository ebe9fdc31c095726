// SPDX-License-Identifier: BSD-3-Clause
//
// What a convolution costs on the chip.
#pragma once

#include "convolution_shape.h"
#include "gemm_cost.h"
#include "vector_program.h"

namespace atalla::sim::ATALLA_ISA {

// Positions stream through the array as rows, the weight [depth, co] is stationary. SDMA gathers patches from DRAM: an
// input element is read once for every tap that sees it, unless the group's image fits into half a scratchpad. A
// depthwise group would use one column of the array; it runs on the vector unit instead, one multiply and one add a
// tap.
inline void convolution_cost(const atalla_launch_desc& desc, const ConvolutionShape& s, Cost& cost) {
  if (s.groups < 1 || s.batch * s.out_channels * s.positions() <= 0) return;
  const uint64_t images = static_cast<uint64_t>(s.batch) * static_cast<uint64_t>(s.groups);
  const int64_t in_item = cost_element_size(desc.operands[1].dtype);
  const int64_t weight_item = cost_element_size(desc.operands[2].dtype);
  const int64_t positions = s.positions(), depth = s.depth(), co = s.out_per_group();
  const int64_t image_bytes = s.in_per_group() * s.in[0] * s.in[1] * s.in[2] * in_item;
  const uint64_t vectors =
      static_cast<uint64_t>(s.batch * s.out_channels) * static_cast<uint64_t>(ceil_div(positions, kVectorElements));
  if (co == 1) {
    cost.vector_ops = 2 * vectors * static_cast<uint64_t>(depth);
    cost.bytes_read = images * static_cast<uint64_t>(image_bytes + depth * weight_item);
  } else {
    const ArrayProduct product = array_product(positions, co, depth, in_item, weight_item);
    cost.macs = product.macs * images;
    cost.array_rows = product.array_rows * images;
    cost.weight_rows = product.weight_rows * images;
    const uint64_t a_bytes = image_bytes <= kScratchpadBytes / 2 ? static_cast<uint64_t>(image_bytes) : product.a_bytes;
    cost.bytes_read = images * (a_bytes + product.b_bytes);
  }
  if (desc.n_operands == 4 && desc.operands[3].addr != 0) {
    cost.bytes_read += stored_bytes(desc.operands[3]);
    cost.vector_ops += vectors;
  }
  cost.bytes_written = static_cast<uint64_t>(s.batch * s.out_channels * positions) *
                       static_cast<uint64_t>(cost_element_size(desc.operands[0].dtype));
}

// What a program adds that ends such a launch: its other operands, and its instructions.
inline void convolution_program_cost(const atalla_launch_desc& desc, const ConvolutionShape& s, Cost& cost) {
  const int n_out = desc.n_outputs;
  for (int i = 1; i < n_out; ++i) cost.bytes_written += stored_bytes(desc.operands[i]);
  for (int i = n_out + 3; i + 1 < desc.n_operands; ++i) {
    if (desc.operands[i].addr != 0) cost.bytes_read += stored_bytes(desc.operands[i]);
  }
  cost_vector_program(s.batch * s.out_channels * s.positions(), desc.iparams[10], desc.iparams[11], cost);
}

}  // namespace atalla::sim::ATALLA_ISA
