// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/config.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "sim/abi/error.h"
#include "sim/device/parameters.h"
#include "sim/dram/banks.h"

namespace atalla::sim {
namespace {

constexpr const char* kRow =
    "the scratchpads are allocated, and addressed by instructions, in rows of 32 BF16 elements";
constexpr const char* kElement = "the SDMA's instructions move BF16 elements";

constexpr uint64_t kMaxCycles = 1'000'000;
constexpr uint64_t kMostEnergy = 1'000'000'000;
constexpr uint64_t kMostArea = 1'000'000'000;
constexpr uint64_t kMaxEdge = 1024;  // of the array, a vector and a tile

constexpr IntegerField<ChipConfig> kIntegers[] = {
#include "chip_integers.inc"
};

constexpr Limits kLimits[] = {
    {"chip.clock_hz", 1, 1'000'000'000'000},
    {"chip.devices", 2, 2, Range::kAny, "ATALLA_DEVICE_COUNT sets the number of devices"},
    {"dram.bytes", 4096, uint64_t{1} << 46},
    {"dram.alignment", 16, 4096, Range::kPowerOfTwo},
    {"bus.width_bytes", 1, 1024, Range::kPowerOfTwo},
    {"scratchpad.count", 1, 64},
    {"scratchpad.bytes", 64, uint64_t{1} << 30, Range::kPowerOfTwo},
    {"scratchpad.row_bytes", 64, 64, Range::kAny, kRow},
    {"scratchpad.ports", 1, 16},
    {"scratchpad.banks", 1, 32, Range::kPowerOfTwo},
    {"_cache.bytes", 0, uint64_t{1} << 24, Range::kZeroOrPowerOfTwo},
    {"_cache.line_bytes", 32, 4096, Range::kPowerOfTwo},
    {"_cache.ways", 1, 64, Range::kPowerOfTwo},
    {"sdma.tile_rows", 1, kMaxEdge, Range::kPowerOfTwo},
    {"sdma.tile_columns", 1, kMaxEdge, Range::kPowerOfTwo},
    {"sdma.element_bytes", 2, 2, Range::kAny, kElement},
    {"sdma.queue_depth", 1, 64},
    {"scalar.store_latency_cycles", 1, 1, Range::kAny, "a store has no result that an instruction waits for"},
    {"scalar.", 1, kMaxCycles},
    {"vector.lanes", 1, kMaxEdge},
    {"vector.occupancy_cycles", 1, kMaxCycles},
    {"array.rows", 1, kMaxEdge},
    {"array.columns", 1, kMaxEdge},
    {"array.row_cycles", 1, kMaxCycles},
    {"array.weight_cycles", 1, kMaxCycles},
    {"link.bytes_per_cycle", 1, 1024},
    {"core.count", 1, 64},
    {"network.columns", 1, 64},
    {"network.link_bytes", 1, 1024, Range::kPowerOfTwo},
    {"telemetry.records", 1, 16'777'216},
    {"energy.", 0, kMostEnergy},
    {"area.", 0, kMostArea},
    {"_cycles", 0, kMaxCycles},
};
static_assert(std::ranges::all_of(kIntegers, [](const auto& field) { return limits_of(field.key, kLimits); }));

struct RealField {
  const char* key;
  double ChipConfig::* member;
};

constexpr RealField kReals[] = {
    {"sdma.beat_cycles", &ChipConfig::sdma_beat_cycles},
    {"sdma.ideal_beat_cycles", &ChipConfig::sdma_ideal_beat_cycles},
    {"sdma.measured_beat_cycles", &ChipConfig::sdma_measured_beat_cycles},
};

}  // namespace

atalla_status parse_chip_config(std::string_view text, const char* where, ChipConfig* config) {
  TomlDocument document;
  std::string error;
  if (!parse_toml(text, &document, &error)) return set_error(ATALLA_ERR_CONFIG, "%s: %s", where, error.c_str());
  static const TomlDocument* const units = units_of(builtin_chip_text());
  ParameterReader reader(document, where, units);
  const TomlValue* value = reader.take("format");
  if (value == nullptr) return reader.fail(0, "missing; expected 1", "format");
  if (value->value != decltype(value->value){int64_t{1}}) return reader.fail(value->line, "expected 1", "format");
  constexpr size_t kMostName = sizeof(atalla_device_properties::name) - 1, kMostPath = 4095;
  if (const atalla_status status = reader.text("chip.name", kMostName, &config->chip_name)) return status;
  if (const atalla_status status = reader.text("dram.preset", kMostPath, &config->dram_preset)) return status;
  if (config->dram_preset != kConstantDram) {
    if (const atalla_status status = find_dram_preset(config->dram_preset, &config->dram)) return status;
  }
  for (const RealField& field : kReals) {
    if (const atalla_status status = reader.parameter(field.key, &value)) return status;
    const auto* integer = std::get_if<int64_t>(&value->value);
    const auto* real = std::get_if<double>(&value->value);
    const double number = integer ? static_cast<double>(*integer) : real ? *real : 0.0;
    if (!(number >= 0.001 && number <= 1e6)) {
      return reader.fail(value->line, "expected a number from 0.001 to 1000000", field.key);
    }
    config->*field.member = number;
  }
  size_t choice = 0;
  if (const atalla_status status = reader.choice("core.scratchpads", {"shared", "own"}, &choice)) return status;
  config->core_own_scratchpads = choice == 1;
  if (const atalla_status status = reader.choice("network.topology", {"bus", "crossbar", "mesh"}, &choice))
    return status;
  config->network_topology = static_cast<Topology>(choice);
  if (const atalla_status status = reader.integers<ChipConfig>(kIntegers, kLimits, config)) return status;
  if (const atalla_status status = reader.finish()) return status;
  const uint64_t tile_bytes = config->sdma_tile_rows * config->sdma_tile_columns * config->sdma_element_bytes;
  const struct {
    bool holds;
    const char* key;
    uint64_t value;
    const char* limit;
    uint64_t bytes;
  } limits[] = {
      {config->scratchpad_bytes >= tile_bytes, "scratchpad.bytes", config->scratchpad_bytes,
       "at least those of a tile of the SDMA", tile_bytes},
      {config->bus_width_bytes <= tile_bytes, "bus.width_bytes", config->bus_width_bytes,
       "at most those of a tile of the SDMA", tile_bytes},
      {config->network_topology != Topology::kMesh || config->network_columns <= config->core_count, "network.columns",
       config->network_columns, "at most core.count", config->core_count},
      {config->instruction_cache_bytes == 0 ||
           2 * config->instruction_cache_line_bytes <= config->instruction_cache_bytes,
       "instruction_cache.line_bytes", config->instruction_cache_line_bytes, "at most half of instruction_cache.bytes",
       config->instruction_cache_bytes / 2},
      {config->instruction_cache_bytes == 0 ||
           config->instruction_cache_ways * config->instruction_cache_line_bytes <= config->instruction_cache_bytes,
       "instruction_cache.ways", config->instruction_cache_ways, "at most the lines of the cache",
       config->instruction_cache_bytes / config->instruction_cache_line_bytes},
      {config->data_cache_bytes == 0 || 2 * config->data_cache_line_bytes <= config->data_cache_bytes,
       "data_cache.line_bytes", config->data_cache_line_bytes, "at most half of data_cache.bytes",
       config->data_cache_bytes / 2},
      {config->data_cache_bytes == 0 ||
           config->data_cache_ways * config->data_cache_line_bytes <= config->data_cache_bytes,
       "data_cache.ways", config->data_cache_ways, "at most the lines of the cache",
       config->data_cache_bytes / config->data_cache_line_bytes},
      {config->dram_alignment <= config->dram_bytes, "dram.alignment", config->dram_alignment, "at most dram.bytes",
       config->dram_bytes},
  };
  for (const auto& [holds, key, number, limit, bytes] : limits) {
    if (holds) continue;
    char reason[160];
    snprintf(reason, sizeof reason, "the value is %" PRIu64 "; expected %s, %" PRIu64, number, limit, bytes);
    return reader.fail(reader.line(key), reason, key);
  }
  config->beat_millicycles = millicycles(config->sdma_beat_cycles);
  const bool constant = config->dram_preset == kConstantDram;
  if (constant) {
    if (const atalla_status status = find_dram_preset(kChipDram, &config->dram)) return status;
  }
  config->dram_energy = stream_energy(config->dram, config->chip_clock_hz, tile_bytes, constant);
  if (!constant) {
    const uint64_t beats = (tile_bytes + config->bus_width_bytes - 1) / config->bus_width_bytes;
    config->beat_millicycles = stream_millicycles(config->dram, config->chip_clock_hz, tile_bytes) / beats;
  }
  return ATALLA_OK;
}

const std::string& builtin_chip_text() {
  static const std::string* const text = new std::string(
#include "chip_toml.inc"
  );
  return *text;
}

const ChipConfig& builtin_chip_config() {
  static const ChipConfig* const config = [] {
    auto* parsed = new ChipConfig;
    if (parse_chip_config(builtin_chip_text(), "built-in chip.toml", parsed) != ATALLA_OK) {
      fprintf(stderr, "atalla: %s\n", last_error());
      abort();
    }
    return parsed;
  }();
  return *config;
}

atalla_status read_chip_file(const char* path, std::string* text) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path, "rbe"), fclose);
  if (!file) return set_error(ATALLA_ERR_CONFIG, "chip configuration \"%s\": %s", path, strerror(errno));
  constexpr size_t kMaxFileBytes = 1 << 20;
  char chunk[4096];
  text->clear();
  while (const size_t n = fread(chunk, 1, sizeof chunk, file.get())) {
    text->append(chunk, n);
    if (text->size() > kMaxFileBytes) {
      return set_error(ATALLA_ERR_CONFIG, "chip configuration \"%s\" is larger than %zu bytes", path, kMaxFileBytes);
    }
  }
  if (ferror(file.get())) {
    return set_error(ATALLA_ERR_CONFIG, "chip configuration \"%s\": %s", path, strerror(errno));
  }
  return ATALLA_OK;
}

atalla_status read_env_integer(const char* name, uint64_t low, uint64_t high, uint64_t fallback, uint64_t* value) {
  const char* text = getenv(name);
  if (text == nullptr || *text == '\0') {
    *value = fallback;
    return ATALLA_OK;
  }
  uint64_t parsed = 0;
  const char* end = text + strlen(text);
  const auto result = std::from_chars(text, end, parsed);
  if (result.ec != std::errc{} || result.ptr != end || parsed < low || parsed > high) {
    return set_error(ATALLA_ERR_CONFIG,
                     "environment variable %s is \"%s\"; expected an integer from %" PRIu64 " to %" PRIu64, name, text,
                     low, high);
  }
  *value = parsed;
  return ATALLA_OK;
}

}  // namespace atalla::sim
