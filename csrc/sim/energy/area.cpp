// SPDX-License-Identifier: BSD-3-Clause
#include "sim/energy/area.h"

namespace atalla::sim {
namespace {

constexpr uint64_t kRegisters = 256;               // vector registers
constexpr uint64_t kElementBytes = sizeof(float);  // of a vector register

}  // namespace

atalla_area area_of(const ChipConfig& config) {
  const uint64_t cores = config.core_count;
  const uint64_t pads = config.scratchpad_count * config.scratchpad_bytes * (config.core_own_scratchpads ? cores : 1);
  return {.struct_size = sizeof(atalla_area),
          .reserved = 0,
          .array = cores * config.array_rows * config.array_columns * config.area_multiply_add,
          .vector = cores * config.vector_lanes * config.area_lane,
          .registers = cores * kRegisters * config.vector_lanes * kElementBytes * config.area_register_byte,
          .scalar_core = cores * config.area_scalar_core,
          .scratchpads = pads * config.area_sram_byte};
}

}  // namespace atalla::sim
