// SPDX-License-Identifier: BSD-3-Clause
//
// For which tiles of a launch the core stands still, as generated code moves them. docs/concepts/timing.md lists them.
#pragma once

#include <cstdint>

#include "sim/abi/atalla_schedule.h"

namespace atalla::sim {

inline constexpr uint8_t kAllTiles = 255;

// `first` is the number of the first input, `layout` that of all operands, whose tiles are known.
void wait_for_product(const atalla_geometry& chip, const atalla_launch_desc& desc, int first,
                      atalla_tile_layout* layout);
void wait_for_convolution(const atalla_geometry& chip, const atalla_launch_desc& desc, int first,
                          atalla_tile_layout* layout);

// Pointwise code over strided operands.
void wait_for_sweeps(const atalla_geometry& chip, const atalla_launch_desc& desc, int first,
                     atalla_tile_layout* layout);

// Windows over an image whose lines stay in a scratchpad, 32 channels at a time: pooling, and a depthwise convolution.
void wait_for_planes(const atalla_geometry& chip, const atalla_operand& out, const atalla_operand& image,
                     atalla_tile_layout* layout);

// Rows of `run` bytes, taken 32 at a time; `result`: they are written.
void wait_for_rows(const atalla_geometry& chip, const atalla_operand& operand, uint64_t run, bool result,
                   atalla_tile_layout* layout);

}  // namespace atalla::sim
