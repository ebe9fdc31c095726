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
#include "chip_parameters.inc"  // the numbers of chip.toml, by section and name
  std::string chip_name;
  std::string dram_preset;
  bool core_own_scratchpads = false;  // scratchpad.count of them for each core; otherwise all cores share those
  Topology network_topology = Topology::kBus;
  // Derived from the members above:
  DramPreset dram;                // of that name; of kConstantDram, the memory whose energy counts
  uint64_t beat_millicycles = 0;  // of the bus, in a stream of contiguous tiles
  DramEnergy dram_energy;         // of the same stream

  CacheParameters instruction_cache() const {
    return {instruction_cache_bytes, instruction_cache_line_bytes, instruction_cache_ways,
            instruction_cache_miss_cycles};
  }
  CacheParameters data_cache() const {
    return {data_cache_bytes, data_cache_line_bytes, data_cache_ways, data_cache_miss_cycles};
  }
  // One without banks is one channel.
  uint64_t memory_channels() const { return dram_preset == kConstantDram ? 1 : dram.organization_channels; }
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
