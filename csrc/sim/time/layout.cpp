// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/layout.h"

#include <algorithm>

#include "sim/abi/dtype.h"
#include "sim/time/timing.h"
#include "sim/time/waits.h"

namespace atalla::sim {
namespace {

// The two innermost dimensions in memory, of those that have several elements at different places.
struct Innermost {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t next_stride = 0;  // 0: there is none
  int64_t next_size = 1;
  int dimension = -1;
};

Innermost innermost(const atalla_operand& operand) {
  Innermost found;
  int next = -1;
  for (int d = operand.ndim - 1; d >= 0; --d) {
    if (operand.sizes[d] <= 1 || operand.strides[d] == 0) continue;
    if (found.dimension < 0 || operand.strides[d] < operand.strides[found.dimension]) {
      next = found.dimension;
      found.dimension = d;
    } else if (next < 0 || operand.strides[d] < operand.strides[next]) {
      next = d;
    }
  }
  if (found.dimension < 0) return found;
  found.size = operand.sizes[found.dimension];
  found.stride = operand.strides[found.dimension];
  if (next >= 0) {
    found.next_stride = operand.strides[next];
    found.next_size = operand.sizes[next];
  }
  return found;
}

// The rows of a tile that is transposed lie along the dimension that is innermost on the other side.
void across(int dimension, const atalla_operand& operand, Innermost* inner) {
  if (dimension < 0 || dimension >= operand.ndim || operand.sizes[dimension] <= 1) return;
  inner->next_stride = operand.strides[dimension];
  inner->next_size = operand.sizes[dimension];
}

// Shapes that no DRAM holds wrap.
uint64_t numel(const atalla_operand& operand) {
  uint64_t count = 1;
  for (int d = 0; d < operand.ndim; ++d) count *= static_cast<uint64_t>(operand.sizes[d]);
  return count;
}

// No gaps between the elements.
bool is_dense(const atalla_operand& operand) {
  uint64_t count = 1, extent = 1;  // of shapes that no DRAM holds, they wrap
  for (int d = 0; d < operand.ndim; ++d) {
    count *= static_cast<uint64_t>(operand.sizes[d]);
    extent += (static_cast<uint64_t>(operand.sizes[d]) - 1) * static_cast<uint64_t>(operand.strides[d]);
  }
  return count == extent;
}

bool same_places(const atalla_operand& a, const atalla_operand& b) {
  return a.ndim == b.ndim && std::equal(a.sizes, a.sizes + a.ndim, b.sizes) &&
         std::equal(a.strides, a.strides + a.ndim, b.strides);
}

bool is_single(const atalla_operand& operand) {
  return std::all_of(operand.sizes, operand.sizes + operand.ndim,
                     [&](const int64_t& size) { return size == 1 || operand.strides[&size - operand.sizes] == 0; });
}

// From the pixels of one result to those of the next.
uint64_t pixel_step(const atalla_operand& out, const atalla_operand& image) {
  const int64_t width = out.ndim == 0 ? 1 : out.sizes[out.ndim - 1];
  return image.ndim == 0 || width <= 0
             ? 1
             : std::max<uint64_t>(1, static_cast<uint64_t>(image.sizes[image.ndim - 1] / width));
}

// The rows of a tile, where `lines` come in as few and as even tiles as possible.
uint16_t even_rows(uint64_t lines, uint64_t most) {
  const uint64_t pieces = std::max<uint64_t>(1, ceil_div(lines, most));
  return static_cast<uint16_t>(std::max<uint64_t>(1, ceil_div(lines, pieces)));
}

// All operands are passed in the order of memory.
bool is_flat(const atalla_launch_desc& desc) {
  if (desc.n_operands == 0 || !is_dense(desc.operands[0])) return false;
  for (int k = 1; k < desc.n_operands; ++k) {
    const atalla_operand& operand = desc.operands[k];
    if (in_memory(operand) && !same_places(operand, desc.operands[0]) && !is_single(operand)) return false;
  }
  return true;
}

// True if the result of a concatenation is a row of its inputs, all passed in the order of memory.
bool is_row_of_inputs(const atalla_launch_desc& desc) {
  for (int k = 1; k < desc.n_operands; ++k) {
    atalla_operand part = desc.operands[k];
    std::copy_n(desc.operands[0].strides, part.ndim, part.strides);
    if (!is_dense(part) || !same_places(part, desc.operands[k])) return false;
  }
  return true;
}

// True if columns are reduced. The code then takes their tiles one by one.
bool reduces_columns(const atalla_operand& out, const atalla_operand& in) {
  if (out.ndim != in.ndim || in.ndim == 0 || out.sizes[in.ndim - 1] != in.sizes[in.ndim - 1]) return false;
  return !std::equal(in.sizes, in.sizes + in.ndim, out.sizes);
}

// True if the lines of an image give those of another: pooling.
bool has_windows(const atalla_operand& out, const atalla_operand& in) {
  return out.ndim == in.ndim && in.ndim >= 4 && std::equal(in.sizes, in.sizes + 2, out.sizes) &&
         !std::equal(in.sizes, in.sizes + in.ndim, out.sizes) && out.sizes[out.ndim - 1] > 1;
}

}  // namespace

void lay_out(const atalla_geometry& chip, const KernelTraits& traits, const atalla_launch_desc& desc,
             atalla_tile_layout* layout) {
  const uint64_t row = uint64_t{chip.sdma_tile_columns} * chip.sdma_element_bytes;
  const bool flat =
      traits.lookup || (traits.elementwise && is_flat(desc)) || (traits.concatenation && is_row_of_inputs(desc));
  const bool matrices = traits.product || traits.convolution || traits.attention;
  const int first = desc.n_outputs;
  const bool copy = traits.conversion && desc.n_operands == 2 && desc.operands[0].dtype == desc.operands[1].dtype;
  const bool transpose = copy && innermost(desc.operands[0]).dimension != innermost(desc.operands[1]).dimension;
  const bool one_engine = traits.lookup || traits.concatenation || (copy && !transpose);
  // The others take whole rows.
  const bool any_tiles = traits.elementwise || traits.lookup || traits.concatenation;
  for (int k = 0; k < desc.n_operands; ++k) {
    const atalla_operand& operand = desc.operands[k];
    if (!in_memory(operand)) continue;
    Innermost inner = innermost(operand);
    if (transpose) across(innermost(desc.operands[1 - k]).dimension, operand, &inner);
    const uint64_t size = dtype_size(operand.dtype);
    const uint64_t run = inner.stride == 1 ? static_cast<uint64_t>(inner.size) * size : size;
    atalla_tile_layout& place = layout[k];
    place = {.pitch = row,
             .row_bytes = static_cast<uint16_t>(row),
             .rows = static_cast<uint16_t>(chip.sdma_tile_rows),
             .engine = 0,
             .waits = 0,
             .last = 0,
             .order = ATALLA_TILES_FOLLOW};
    if (traits.lookup && k == first) place.order = ATALLA_TILES_SCATTERED;
    if (traits.lookup) place.rows = static_cast<uint16_t>(std::clamp<uint64_t>(run / row, 1, chip.sdma_tile_rows));
    // Constant weights, whose depth is innermost, are stored tile by tile.
    const bool packed = (traits.product || traits.convolution) && k == first + 1 &&
                        (traits.convolution || inner.dimension == operand.ndim - 2);
    if (traits.convolution && k == first && run < row) {
      // Few channels: a row is a run of pixels, which overlaps others, and a tile has those of a line of results.
      const atalla_operand& out = desc.operands[0];
      place.pitch = run * pixel_step(out, operand);
      if (out.ndim > 0) place.rows = even_rows(static_cast<uint64_t>(out.sizes[out.ndim - 1]), place.rows);
      continue;
    }
    if (!flat && !packed && inner.next_stride != 0) {
      place.row_bytes = static_cast<uint16_t>(std::min(row, run));
      place.pitch = std::max<uint64_t>(place.row_bytes, static_cast<uint64_t>(inner.next_stride) * size);
    }
    if (transpose) {
      place.rows = static_cast<uint16_t>(std::clamp<int64_t>(inner.next_size, 1, place.rows));
    } else if (k == first && (traits.convolution || !(matrices || any_tiles))) {
      // Lines of an image, or rows: cut as evenly as possible, the way they come.
      place.rows = even_rows(static_cast<uint64_t>(inner.next_size), place.rows);
    }
    if (matrices) place.engine = k > first ? 1 : 0;
    else if (!one_engine) place.engine = k < first ? 1 : 0;
    const bool rows = !matrices && !any_tiles && first < desc.n_operands && (k == first || k == 0);
    if (!rows || reduces_columns(desc.operands[0], desc.operands[first])) continue;
    if (!has_windows(desc.operands[0], desc.operands[first])) wait_for_rows(chip, operand, run, k < first, &place);
    else if (k == first) wait_for_planes(chip, desc.operands[0], operand, &place);
  }
  if (traits.elementwise && !flat && !copy) wait_for_sweeps(chip, desc, first, layout);
  if (traits.attention && desc.n_operands >= first + 3) {  // keys and values of a head come under the head before
    const atalla_operand& out = desc.operands[0];
    const uint64_t heads = out.ndim < 2 ? 1 : static_cast<uint64_t>(out.sizes[0] * out.sizes[1]);
    layout[first + 1].waits = layout[first + 2].waits = static_cast<uint8_t>(kAllTiles / std::max<uint64_t>(1, heads));
  }
  if (!(traits.product || traits.convolution) || desc.n_operands < first + 2) return;
  const atalla_operand &out = desc.operands[0], &a = desc.operands[first], &b = desc.operands[first + 1];
  if (a.ndim < 2 || out.ndim == 0) return;
  for (int k = first + 3; k < desc.n_operands; ++k)  // what is added to the result comes one tile ahead
    if (in_memory(desc.operands[k]) && numel(desc.operands[k]) == numel(out)) layout[k].waits = kAllTiles * 4 / 5;
  if (traits.product) wait_for_product(chip, desc, first, layout);
  else if (b.ndim > 1 && b.sizes[1] == 1) wait_for_planes(chip, out, a, &layout[first]);
  else wait_for_convolution(chip, desc, first, layout);
}

}  // namespace atalla::sim
