// SPDX-License-Identifier: BSD-3-Clause
//
// The parameters of a chip, read from TOML text. chip.toml names each one with its unit and source.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/abi/atalla.h"
#include "sim/abi/atalla_schedule.h"
#include "sim/dram/banks.h"
#include "sim/dram/preset.h"

namespace atalla::sim {

// The preset under which every beat of the bus takes sdma.beat_cycles.
inline constexpr const char* kConstantDram = "constant";
// The memory behind it, whose energy counts: the chip's.
inline constexpr const char* kChipDram = "ddr4_3200";

// The network between the cores and the memory channels (csrc/sim/dram/interconnect.h).
enum class Topology : uint8_t { kBus, kCrossbar, kMesh };

inline uint64_t millicycles(double cycles) { return static_cast<uint64_t>(cycles * 1000 + 0.5); }

struct CacheParameters {
  uint64_t bytes;  // 0: it holds everything
  uint64_t line_bytes;
  uint64_t ways;
  uint64_t miss_cycles;
};

struct ChipConfig {
  std::string chip_name;
  uint64_t chip_clock_hz = 0;
  uint64_t chip_devices = 0;
  uint64_t dram_bytes = 0;
  uint64_t dram_alignment = 0;
  std::string dram_preset;
  DramPreset dram;                // of that name; of kConstantDram, the memory whose energy counts
  uint64_t beat_millicycles = 0;  // of the bus, in a stream of contiguous tiles
  DramEnergy dram_energy;         // of the same stream
  uint64_t bus_width_bytes = 0;
  uint64_t scratchpad_count = 0;
  uint64_t scratchpad_bytes = 0;
  uint64_t scratchpad_row_bytes = 0;
  uint64_t scratchpad_ports = 0;
  uint64_t scratchpad_banks = 0;
  uint64_t sdma_setup_cycles = 0;
  double sdma_beat_cycles = 0;
  uint64_t sdma_tile_rows = 0;
  uint64_t sdma_tile_columns = 0;
  uint64_t sdma_element_bytes = 0;
  uint64_t sdma_ideal_setup_cycles = 0;
  double sdma_ideal_beat_cycles = 0;
  double sdma_measured_beat_cycles = 0;
  uint64_t sdma_queue_depth = 0;
  uint64_t instruction_cache_bytes = 0;
  uint64_t instruction_cache_line_bytes = 0;
  uint64_t instruction_cache_ways = 0;
  uint64_t instruction_cache_miss_cycles = 0;
  uint64_t data_cache_bytes = 0;
  uint64_t data_cache_line_bytes = 0;
  uint64_t data_cache_ways = 0;
  uint64_t data_cache_miss_cycles = 0;
  uint64_t scalar_latency_cycles = 0;
  uint64_t scalar_multiply_latency_cycles = 0;
  uint64_t scalar_divide_latency_cycles = 0;
  uint64_t scalar_bf_add_latency_cycles = 0;
  uint64_t scalar_bf_multiply_latency_cycles = 0;
  uint64_t scalar_bf_root_latency_cycles = 0;
  uint64_t scalar_bf_root_occupancy_cycles = 0;
  uint64_t scalar_load_latency_cycles = 0;
  uint64_t scalar_store_latency_cycles = 0;
  uint64_t scalar_branch_cycles = 0;
  uint64_t scalar_service_cycles = 0;
  uint64_t vector_lanes = 0;
  uint64_t vector_occupancy_cycles = 0;
  uint64_t vector_latency_cycles = 0;
  uint64_t vector_multiply_latency_cycles = 0;
  uint64_t vector_reduce_latency_cycles = 0;
  uint64_t vector_exp_latency_cycles = 0;
  uint64_t vector_load_latency_cycles = 0;
  uint64_t vector_store_latency_cycles = 0;
  uint64_t array_rows = 0;
  uint64_t array_columns = 0;
  uint64_t array_row_cycles = 0;
  uint64_t array_weight_cycles = 0;
  uint64_t array_latency_cycles = 0;
  uint64_t launch_overhead_cycles = 0;
  uint64_t link_bytes_per_cycle = 0;
  uint64_t link_latency_cycles = 0;
  uint64_t telemetry_records = 0;
  uint64_t core_count = 0;
  uint64_t core_start_cycles = 0;
  bool core_own_scratchpads = false;  // scratchpad.count of them for each core; otherwise all cores share those
  Topology network_topology = Topology::kBus;
  uint64_t network_columns = 0;
  uint64_t network_link_bytes = 0;
  uint64_t network_router_cycles = 0;
  uint64_t energy_mac_bf16 = 0;
  uint64_t energy_mac_fp16 = 0;
  uint64_t energy_mac_fp32 = 0;
  uint64_t energy_mac_int8 = 0;
  uint64_t energy_lane = 0;
  uint64_t energy_exp_lane = 0;
  uint64_t energy_register_row = 0;
  uint64_t energy_scratchpad_row = 0;
  uint64_t energy_bus_beat = 0;
  uint64_t energy_packet = 0;
  uint64_t energy_link_byte = 0;
  uint64_t energy_network_link_byte = 0;
  uint64_t energy_router_byte = 0;
  uint64_t energy_leakage = 0;
  uint64_t area_multiply_add = 0;
  uint64_t area_lane = 0;
  uint64_t area_register_byte = 0;
  uint64_t area_sram_byte = 0;
  uint64_t area_scalar_core = 0;

  CacheParameters instruction_cache() const {
    return {instruction_cache_bytes, instruction_cache_line_bytes, instruction_cache_ways,
            instruction_cache_miss_cycles};
  }
  CacheParameters data_cache() const {
    return {data_cache_bytes, data_cache_line_bytes, data_cache_ways, data_cache_miss_cycles};
  }
  // One without banks is one channel.
  uint64_t memory_channels() const { return dram_preset == kConstantDram ? 1 : dram.channels; }
};

// How often an SDMA engine takes a port of a scratchpad of so many banks for `rows` rows of `bytes` bytes. Each time,
// it passes a word of each bank. Word w of row r lies in bank w ^ r, so that only long rows share banks.
inline uint64_t scratchpad_accesses(uint64_t banks, uint64_t rows, uint64_t bytes) {
  constexpr uint64_t kRowBytes = 64;
  const uint64_t words =
      std::bit_ceil(std::max<uint64_t>(1, (std::min(bytes, kRowBytes) * banks + kRowBytes - 1) / kRowBytes));
  return rows / banks * words + std::min(rows % banks, words);
}

// Parses and checks `text`; `where` names it in errors. ATALLA_ERR_CONFIG with the line and the reason for malformed
// text, unknown, missing or repeated parameters, a parameter without source, and values outside their range.
atalla_status parse_chip_config(std::string_view text, const char* where, ChipConfig* config);

// The text of the built-in configuration and its parsed form, which the build guarantees to be valid.
const std::string& builtin_chip_text();
const ChipConfig& builtin_chip_config();

// Reads the file at `path` into *text. ATALLA_ERR_CONFIG with the system's reason when it cannot be read.
atalla_status read_chip_file(const char* path, std::string* text);

// The non-negative decimal integer in environment variable `name`; `fallback` when it is unset or empty.
// ATALLA_ERR_CONFIG when it is something else or lies outside [low, high].
atalla_status read_env_integer(const char* name, uint64_t low, uint64_t high, uint64_t fallback, uint64_t* value);

}  // namespace atalla::sim
