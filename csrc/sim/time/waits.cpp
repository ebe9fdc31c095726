// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/waits.h"

#include <algorithm>

#include "sim/abi/dtype.h"
#include "sim/time/layout.h"
#include "sim/time/product_plan.h"
#include "sim/time/timing.h"

namespace atalla::sim {
namespace {

// `waited` of `all` tiles.
uint8_t share(uint64_t waited, uint64_t all) {
  return all == 0 ? 0 : static_cast<uint8_t>(kAllTiles * std::min(waited, all) / all);
}

// Of `tiles`, those that an SDMA engine does not queue.
uint64_t beyond_queue(uint64_t tiles, uint64_t queue) { return tiles > queue ? tiles - queue : 0; }

uint64_t size_at(const atalla_operand& operand, int from_end) {
  const int d = operand.ndim - from_end;
  return d < 2 ? 1 : static_cast<uint64_t>(std::max<int64_t>(1, operand.sizes[d]));
}

// Lines and pixels of an image, and those of the windows' results.
struct Windows {
  Windows(const atalla_operand& out, const atalla_operand& image)
      : height(size_at(image, 2)),
        width(size_at(image, 1)),
        out_height(size_at(out, 2)),
        out_width(size_at(out, 1)),
        step(std::max<uint64_t>(1, height / out_height)),
        reach(height > (out_height - 1) * step ? height - (out_height - 1) * step : 1) {}

  uint64_t height, width, out_height, out_width;
  uint64_t step;   // lines from one window to the next
  uint64_t reach;  // lines of the image that the first window looks at
};

// How a convolution's code cuts the lines of its result, and the tiles that come for a block of them.
struct Blocks {
  uint64_t lines = 1;  // of the result
  uint64_t count = 1;
  uint64_t first = 0;  // tiles of the image before the first block
  uint64_t next = 0;   // before each later one
  bool early = true;   // these come under the block before
};

Blocks blocks_of_lines(uint64_t most_rows, const Windows& w) {
  Blocks found;
  found.lines = std::clamp<uint64_t>(most_rows / w.out_width, 1, w.out_height);
  found.count = ceil_div(w.out_height, found.lines);
  found.lines = ceil_div(w.out_height, found.count);
  return found;
}

// A dimension of all operands of a pointwise launch, in elements and then in tiles.
struct Loop {
  uint64_t count = 1;
  int64_t strides[ATALLA_MAX_OPERANDS] = {};
};

struct Loops {
  Loop all[ATALLA_MAX_DIMS];
  int count = 0;
};

// Neighbouring dimensions are one where all operands allow it.
Loops loops_of(const atalla_launch_desc& desc) {
  Loops found;
  for (int d = 0; d < desc.operands[0].ndim; ++d) {
    Loop next{static_cast<uint64_t>(desc.operands[0].sizes[d]), {}};
    if (next.count <= 1) continue;
    bool joins = found.count != 0;
    for (int k = 0; k < desc.n_operands; ++k) {
      const atalla_operand& operand = desc.operands[k];
      next.strides[k] = operand.ndim == desc.operands[0].ndim && in_memory(operand) ? operand.strides[d] : 0;
      // Unsigned: those of shapes that no DRAM holds wrap.
      joins = joins && static_cast<uint64_t>(found.all[found.count - 1].strides[k]) ==
                           static_cast<uint64_t>(next.strides[k]) * next.count;
    }
    if (joins) next.count *= found.all[--found.count].count;
    found.all[found.count++] = next;
  }
  return found;
}

}  // namespace

// The rows of a product come all at once, more of them than an SDMA engine queues, and the core waits. So do weights
// that are not packed, and whole panels of weights if the rows do not stay in their scratchpad.
void wait_for_product(const atalla_geometry& chip, const atalla_launch_desc& desc, int first,
                      atalla_tile_layout* layout) {
  const atalla_operand &out = desc.operands[0], &a = desc.operands[first];
  const auto m = static_cast<uint64_t>(a.sizes[a.ndim - 2]), k = static_cast<uint64_t>(a.sizes[a.ndim - 1]);
  const uint64_t row_bytes = uint64_t{chip.sdma_tile_columns} * chip.sdma_element_bytes;
  const auto n = static_cast<uint64_t>(out.sizes[out.ndim - 1]), edge = static_cast<uint64_t>(tile_depth(chip));
  const uint64_t m_tiles = ceil_div(m, edge), k_tiles = ceil_div(k, edge);
  const Passes pass = passes_of(chip, static_cast<int64_t>(n), static_cast<int64_t>(k));
  const bool stays =
      rows_stay(chip, static_cast<int64_t>(m_tiles), static_cast<int64_t>(k_tiles * edge), pass.block_tiles);
  layout[first].waits = layout[first + 1].waits = kAllTiles;
  if (!stays || layout[first + 1].pitch != row_bytes) return;
  // Packed weights come a panel before they are used, tile by tile, if two panels have room. Of the first one, the core
  // waits for what does not queue.
  const uint64_t columns = ceil_div(n, static_cast<uint64_t>(tile_width(chip)));
  uint64_t few = std::max<uint64_t>(1, uint64_t{kPanelTiles} / std::max<uint64_t>(1, k_tiles));
  if (pass.wide) few = std::max<uint64_t>(2, few - few % 2);
  const uint64_t panel = few * k_tiles, all = columns * k_tiles, queued = chip.sdma_queue_depth;
  if (all == 0 || (columns > few && 2 * panel > panel_room(chip) / edge)) return;
  const uint64_t first_tiles = std::min(panel, all);
  const uint64_t late = first_tiles > queued ? first_tiles - queued + 1 : 1;
  layout[first + 1].waits = share(late, all);
  if (all > panel) layout[first + 1].last = share(panel, all);
}

// The lines of the first block come first, then the weights, unless they are more than the image: then their panels
// come under those before. The lines of a later block queue behind the results that the block before has stored last,
// and the core waits for what the engine does not queue.
void wait_for_convolution(const atalla_geometry& chip, const atalla_launch_desc& desc, int first,
                          atalla_tile_layout* layout) {
  const atalla_operand &out = desc.operands[0], &image = desc.operands[first], &weight = desc.operands[first + 1];
  if (weight.ndim < 3 || image.ndim < 3) return;
  const uint64_t tile = chip.sdma_tile_rows, lanes = chip.vector_lanes, queue = chip.sdma_queue_depth;
  const Windows w(out, image);
  const auto channels = std::max<uint64_t>(1, static_cast<uint64_t>(weight.sizes[1]));
  const bool grouped = channels != static_cast<uint64_t>(image.sizes[1]);
  const uint64_t taps_down = size_at(weight, 2), taps_right = size_at(weight, 1);
  const uint64_t columns = ceil_div(static_cast<uint64_t>(out.sizes[1]), static_cast<uint64_t>(tile_width(chip)));
  const auto room = static_cast<uint64_t>(std::max<int64_t>(0, scratchpad_rows(chip) - kStageRows));
  Blocks blocks;
  uint64_t depth = taps_down * taps_right * ceil_div(channels, lanes);  // tiles of weights for a column
  if (channels % lanes != 0 && !grouped) depth = taps_down * ceil_div(taps_right * channels, lanes);
  const Passes pass =
      passes_of(chip, out.sizes[1], static_cast<int64_t>(depth * lanes), static_cast<int64_t>(w.out_width));
  const uint64_t most = static_cast<uint64_t>(pass.block_tiles) * tile;
  if (channels % lanes == 0) {
    blocks = blocks_of_lines(most, w);
    const uint64_t line = ceil_div(w.width, tile) * (channels / lanes);
    blocks.first = std::min(w.height, (blocks.lines - 1) * w.step + w.reach) * line;
    blocks.next = blocks.lines * w.step * line;
  } else {  // the pixels under each tap, or each row of taps where they are neighbours in memory
    blocks = blocks_of_lines(std::min(most, room / depth), w);
    blocks.first = blocks.next = depth * blocks.lines * ceil_div(w.out_width, tile);
    blocks.early = 2 * blocks.lines * w.out_width * depth <= room;
  }
  const uint64_t weights = depth * columns;
  const bool panels = static_cast<uint64_t>(weights) > ceil_div(w.height * w.width, tile) * ceil_div(channels, lanes);
  if (panels && columns > 1) layout[first + 1].waits = layout[first + 1].last = share(1, columns);
  else layout[first + 1].waits = share(beyond_queue(weights, queue), weights);

  const uint64_t later = blocks.count - 1, stored = ceil_div(blocks.lines * w.out_width, tile);
  const uint64_t late = blocks.early ? beyond_queue(blocks.next, queue) : blocks.next;
  const uint64_t behind = std::min(beyond_queue(blocks.next + stored, queue), blocks.next);
  layout[first].waits =
      share(beyond_queue(blocks.first, std::min(queue, weights)) + later * late, blocks.first + later * blocks.next);
  layout[0].waits = share(later * (behind > late ? behind - late : 0), blocks.count * stored * columns);
}

// The tile's columns lie along the result's dimension of stride 1. The innermost loop is the one in which most inputs
// stay where they are; these come once for each of its runs, for whose first tiles the core waits.
void wait_for_sweeps(const atalla_geometry& chip, const atalla_launch_desc& desc, int first,
                     atalla_tile_layout* layout) {
  Loops loops = loops_of(desc);
  Loop* const end = loops.all + loops.count;
  Loop* columns = end;
  for (Loop* loop = loops.all; loop != end; ++loop)
    if (loop->strides[0] == 1) columns = loop;
  if (columns == end) return;
  std::rotate(columns, columns + 1, end);
  for (Loop* loop = end - std::min(2, loops.count); loop != end; ++loop)
    loop->count = ceil_div(loop->count, uint64_t{chip.sdma_tile_rows});
  const auto still = [&](const Loop& loop) {
    return std::count(loop.strides + first, loop.strides + desc.n_operands, 0);
  };
  const Loop* inner = nullptr;
  for (const Loop* loop = loops.all; loop != end; ++loop)
    if (loop->count > 1 && (inner == nullptr || still(*loop) >= still(*inner))) inner = loop;
  if (inner == nullptr) return;
  for (int k = first; k < desc.n_operands; ++k) {
    layout[k].waits = inner->strides[k] == 0 ? kAllTiles : share(1, inner->count);
    layout[k].order = ATALLA_TILES_IN_STEP;
  }
}

// The lines of the first windows come before the core begins, and those of the second ones as far as they do not queue.
void wait_for_planes(const atalla_geometry& chip, const atalla_operand& out, const atalla_operand& image,
                     atalla_tile_layout* layout) {
  const Windows w(out, image);
  const uint64_t line = ceil_div(w.width, uint64_t{chip.sdma_tile_rows});
  const uint64_t early = std::min(w.height, w.reach + w.step) * line;
  const uint64_t waited = std::max(w.reach * line, beyond_queue(early, chip.sdma_queue_depth));
  const uint64_t bands = ceil_div(w.height * w.width, static_cast<uint64_t>(scratchpad_rows(chip)));
  layout->waits = share(bands * waited, w.height * line);
}

// The core waits for the first 32 rows, and then, as for the next ones, for the tiles that an engine does not queue. Of
// results, half of those pass under the last pass over the rows; and the last rows are stored when the core has ended.
void wait_for_rows(const atalla_geometry& chip, const atalla_operand& operand, uint64_t run, bool result,
                   atalla_tile_layout* layout) {
  uint64_t elements = 1;  // of shapes that no DRAM holds, they wrap
  for (int d = 0; d < operand.ndim; ++d) elements *= static_cast<uint64_t>(operand.sizes[d]);
  const uint64_t tiles = ceil_div(run, uint64_t{layout->row_bytes}), queue = chip.sdma_queue_depth;
  const uint64_t rows = std::max<uint64_t>(1, elements * dtype_size(operand.dtype) / std::max<uint64_t>(1, run));
  const uint64_t blocks = ceil_div(rows, uint64_t{layout->rows}), late = beyond_queue(tiles, queue);
  if (result) layout->waits = share(blocks * late + 2 * std::min(tiles, queue), 2 * blocks * tiles);
  else layout->waits = share(tiles + (blocks - 1) * late, blocks * tiles);
}

}  // namespace atalla::sim
