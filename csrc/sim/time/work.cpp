// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/work.h"

#include <algorithm>

#include "sim/abi/dtype.h"
#include "sim/device/kernel_traits.h"
#include "sim/time/code.h"
#include "sim/time/layout.h"
#include "sim/time/product_plan.h"
#include "sim/time/timing.h"

namespace atalla::sim {
namespace {

constexpr uint64_t kMost = uint64_t{1} << 60;

uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : std::min(product, kMost);
}

uint64_t elements(const atalla_operand& operand) {
  uint64_t count = 1;
  for (int d = 0; d < operand.ndim; ++d) count = times(count, static_cast<uint64_t>(operand.sizes[d]));
  return count;
}

// Broadcast dimensions count once.
uint64_t stored_elements(const atalla_operand& operand) {
  uint64_t count = 1;
  for (int d = 0; d < operand.ndim; ++d)
    if (operand.strides[d] != 0 || operand.sizes[d] == 0) count = times(count, static_cast<uint64_t>(operand.sizes[d]));
  return count;
}

uint64_t stored_bytes(const atalla_operand& operand) {
  return times(stored_elements(operand), dtype_size(operand.dtype));
}

// Every operand of [first, end) passes the bus once, and the first takes what is left: a kernel that reads one of its
// operands several times, or in part, does so with its first.
void divide_bytes(const atalla_launch_desc& desc, int first, int end, uint64_t total, uint64_t* bytes) {
  while (first < end && !in_memory(desc.operands[first])) ++first;
  for (int k = end - 1; k > first; --k) {
    if (!in_memory(desc.operands[k])) continue;
    bytes[k] = std::min(total, stored_bytes(desc.operands[k]));
    total -= bytes[k];
  }
  if (first < end) bytes[first] = total;
}

// What an operand that is read in blocks takes: all of it, or two blocks of half a scratchpad, the second of which is
// loaded while the first is computed on.
uint64_t blocks_of(const atalla_geometry& chip, uint64_t bytes) {
  return bytes <= chip.scratchpad_bytes / 2 ? bytes : chip.scratchpad_bytes;
}

// A product of the matrices [first] and [first + 1]: columns are divided, so that each core reads all of the first; or
// batches are, of which each core has its own.
void describe_product(const atalla_geometry& chip, const atalla_launch_desc& desc, bool batches,
                      atalla_launch_work* work) {
  const int first = desc.n_outputs;
  const atalla_operand &out = desc.operands[0], &a = desc.operands[first], &b = desc.operands[first + 1];
  const uint64_t columns = out.ndim == 0 ? 1 : static_cast<uint64_t>(out.sizes[out.ndim - 1]);
  const bool batched = batches && out.ndim == 3 && out.sizes[0] > 1 && b.strides[0] != 0;
  const uint64_t batch = batched ? static_cast<uint64_t>(out.sizes[0]) : 1;
  work->block_bytes[first] = blocks_of(chip, stored_bytes(a) / batch);
  work->block_bytes[first + 1] = blocks_of(chip, stored_bytes(b) / batch);
  work->parts = batched ? batch : std::max<uint64_t>(1, ceil_div(columns, static_cast<uint64_t>(tile_width(chip))));
  work->shared = batched ? 0 : 1u << first;
}

// A convolution: images are divided, and each core reads the weights; or the channels of one image.
void describe_convolution(const atalla_geometry& chip, const atalla_launch_desc& desc, atalla_launch_work* work) {
  const int first = desc.n_outputs;
  const atalla_operand &out = desc.operands[0], &image = desc.operands[first], &weight = desc.operands[first + 1];
  const uint64_t batch = out.ndim < 2 ? 1 : static_cast<uint64_t>(std::max<int64_t>(1, out.sizes[0]));
  const uint64_t channels = out.ndim < 2 ? 1 : static_cast<uint64_t>(out.sizes[1]);
  work->block_bytes[first] = blocks_of(chip, stored_bytes(image) / batch);
  work->block_bytes[first + 1] = blocks_of(chip, stored_bytes(weight));
  work->parts = batch > 1 ? batch : std::max<uint64_t>(1, ceil_div(channels, static_cast<uint64_t>(tile_width(chip))));
  work->shared = 1u << (batch > 1 ? first + 1 : first);
}

}  // namespace

void detail_work(const KernelTraits& traits, const atalla_launch_desc& desc, const Cost& cost,
                 atalla_launch_work* work) {
  const atalla_geometry& chip = cost.chip;
  work->vector_ops = cost.vector_ops;
  work->exp_ops = cost.exp_ops;
  work->array_rows = cost.array_rows;
  work->weight_rows = cost.weight_rows;
  work->packets = cost.packets;
  work->tiles = cost.tiles;
  work->beats = cost.beats;
  work->bytes_read = cost.bytes_read;
  work->bytes_written = cost.bytes_written;
  work->shared = 0;
  work->written = (1u << desc.n_outputs) - 1;
  work->code_bytes = estimated_code_bytes(traits, desc, cost);
  work->parts = 1;
  work->working_bytes = working_bytes(cost, traits, desc.n_operands);
  std::fill(std::begin(work->operand_bytes), std::end(work->operand_bytes), 0);
  std::fill(std::begin(work->block_bytes), std::end(work->block_bytes), 0);
  std::fill(std::begin(work->layout), std::end(work->layout), atalla_tile_layout{});
  if (desc.n_operands == 0) return;
  // The scalar core reads the vector program, and no cost counts it.
  const int end = desc.n_operands - (has_program(traits, desc) ? 1 : 0);
  divide_bytes(desc, 0, desc.n_outputs, cost.bytes_written, work->operand_bytes);
  divide_bytes(desc, desc.n_outputs, end, cost.bytes_read, work->operand_bytes);
  lay_out(chip, traits, desc, work->layout);

  if ((traits.product || traits.convolution) && desc.n_operands >= desc.n_outputs + 2) {
    if (traits.product) describe_product(chip, desc, traits.batched, work);
    else describe_convolution(chip, desc, work);
    return;
  }
  const atalla_operand& out = desc.operands[0];
  const uint64_t count = elements(out);
  work->parts = std::max<uint64_t>(1, ceil_div(count, uint64_t{chip.sdma_tile_rows} * chip.sdma_tile_columns));
  if (!traits.elementwise) {  // rows stay whole
    const uint64_t columns = out.ndim == 0 ? count : static_cast<uint64_t>(out.sizes[out.ndim - 1]);
    work->parts = columns == 0 ? 1 : std::clamp<uint64_t>(count / columns, 1, work->parts);
  }
  for (int k = desc.n_outputs; k < end && !traits.concatenation; ++k)
    if (in_memory(desc.operands[k]) && stored_elements(desc.operands[k]) < count) work->shared |= 1u << k;
  if (traits.attention && end - desc.n_outputs >= 2) {
    const atalla_operand &query = desc.operands[desc.n_outputs], &key = desc.operands[desc.n_outputs + 1];
    const uint64_t heads = query.ndim < 4 ? 1 : std::max<uint64_t>(1, times(query.sizes[0], query.sizes[1]));
    work->block_bytes[desc.n_outputs] = blocks_of(chip, stored_bytes(query) / heads);
    work->block_bytes[desc.n_outputs + 1] = blocks_of(chip, 2 * stored_bytes(key) / heads);
  }
}

uint32_t occupied_bytes(const atalla_launch_desc& desc, const atalla_launch_work& work, uint32_t resident,
                        uint64_t capacity) {
  uint64_t total = work.working_bytes;
  for (int k = 0; k < desc.n_operands; ++k)
    total += std::min(capacity, (resident >> k & 1) != 0 ? stored_bytes(desc.operands[k]) : work.block_bytes[k]);
  return static_cast<uint32_t>(std::min(total, capacity));
}

}  // namespace atalla::sim
