// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/config.h"

#include <bit>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

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
    {"chip.clock_hz", &ChipConfig::chip_clock_hz, 1, 1'000'000'000'000},
    {"chip.devices", &ChipConfig::chip_devices, 2, 2, Range::kAny, "ATALLA_DEVICE_COUNT sets the number of devices"},
    {"dram.bytes", &ChipConfig::dram_bytes, 4096, uint64_t{1} << 46},
    {"dram.alignment", &ChipConfig::dram_alignment, 16, 4096, Range::kPowerOfTwo},
    {"bus.width_bytes", &ChipConfig::bus_width_bytes, 1, 1024, Range::kPowerOfTwo},
    {"scratchpad.count", &ChipConfig::scratchpad_count, 1, 64},
    {"scratchpad.bytes", &ChipConfig::scratchpad_bytes, 64, uint64_t{1} << 30, Range::kPowerOfTwo},
    {"scratchpad.row_bytes", &ChipConfig::scratchpad_row_bytes, 64, 64, Range::kAny, kRow},
    {"scratchpad.ports", &ChipConfig::scratchpad_ports, 1, 16},
    {"scratchpad.banks", &ChipConfig::scratchpad_banks, 1, 32, Range::kPowerOfTwo},
    {"instruction_cache.bytes", &ChipConfig::instruction_cache_bytes, 0, uint64_t{1} << 24, Range::kZeroOrPowerOfTwo},
    {"instruction_cache.line_bytes", &ChipConfig::instruction_cache_line_bytes, 32, 4096, Range::kPowerOfTwo},
    {"instruction_cache.ways", &ChipConfig::instruction_cache_ways, 1, 64, Range::kPowerOfTwo},
    {"instruction_cache.miss_cycles", &ChipConfig::instruction_cache_miss_cycles, 0, kMaxCycles},
    {"data_cache.bytes", &ChipConfig::data_cache_bytes, 0, uint64_t{1} << 24, Range::kZeroOrPowerOfTwo},
    {"data_cache.line_bytes", &ChipConfig::data_cache_line_bytes, 32, 4096, Range::kPowerOfTwo},
    {"data_cache.ways", &ChipConfig::data_cache_ways, 1, 64, Range::kPowerOfTwo},
    {"data_cache.miss_cycles", &ChipConfig::data_cache_miss_cycles, 0, kMaxCycles},
    {"sdma.setup_cycles", &ChipConfig::sdma_setup_cycles, 0, kMaxCycles},
    {"sdma.tile_rows", &ChipConfig::sdma_tile_rows, 1, kMaxEdge, Range::kPowerOfTwo},
    {"sdma.tile_columns", &ChipConfig::sdma_tile_columns, 1, kMaxEdge, Range::kPowerOfTwo},
    {"sdma.element_bytes", &ChipConfig::sdma_element_bytes, 2, 2, Range::kAny, kElement},
    {"sdma.ideal_setup_cycles", &ChipConfig::sdma_ideal_setup_cycles, 0, kMaxCycles},
    {"sdma.queue_depth", &ChipConfig::sdma_queue_depth, 1, 64},
    {"scalar.latency_cycles", &ChipConfig::scalar_latency_cycles, 1, kMaxCycles},
    {"scalar.multiply_latency_cycles", &ChipConfig::scalar_multiply_latency_cycles, 1, kMaxCycles},
    {"scalar.divide_latency_cycles", &ChipConfig::scalar_divide_latency_cycles, 1, kMaxCycles},
    {"scalar.bf_add_latency_cycles", &ChipConfig::scalar_bf_add_latency_cycles, 1, kMaxCycles},
    {"scalar.bf_multiply_latency_cycles", &ChipConfig::scalar_bf_multiply_latency_cycles, 1, kMaxCycles},
    {"scalar.bf_root_latency_cycles", &ChipConfig::scalar_bf_root_latency_cycles, 1, kMaxCycles},
    {"scalar.bf_root_occupancy_cycles", &ChipConfig::scalar_bf_root_occupancy_cycles, 1, kMaxCycles},
    {"scalar.load_latency_cycles", &ChipConfig::scalar_load_latency_cycles, 1, kMaxCycles},
    {"scalar.store_latency_cycles", &ChipConfig::scalar_store_latency_cycles, 1, 1, Range::kAny,
     "a store has no result that an instruction waits for"},
    {"scalar.branch_cycles", &ChipConfig::scalar_branch_cycles, 1, kMaxCycles},
    {"scalar.service_cycles", &ChipConfig::scalar_service_cycles, 1, kMaxCycles},
    {"vector.lanes", &ChipConfig::vector_lanes, 1, kMaxEdge},
    {"vector.occupancy_cycles", &ChipConfig::vector_occupancy_cycles, 1, kMaxCycles},
    {"vector.latency_cycles", &ChipConfig::vector_latency_cycles, 0, kMaxCycles},
    {"vector.multiply_latency_cycles", &ChipConfig::vector_multiply_latency_cycles, 0, kMaxCycles},
    {"vector.reduce_latency_cycles", &ChipConfig::vector_reduce_latency_cycles, 0, kMaxCycles},
    {"vector.exp_latency_cycles", &ChipConfig::vector_exp_latency_cycles, 0, kMaxCycles},
    {"vector.load_latency_cycles", &ChipConfig::vector_load_latency_cycles, 0, kMaxCycles},
    {"vector.store_latency_cycles", &ChipConfig::vector_store_latency_cycles, 0, kMaxCycles},
    {"array.rows", &ChipConfig::array_rows, 1, kMaxEdge},
    {"array.columns", &ChipConfig::array_columns, 1, kMaxEdge},
    {"array.row_cycles", &ChipConfig::array_row_cycles, 1, kMaxCycles},
    {"array.weight_cycles", &ChipConfig::array_weight_cycles, 1, kMaxCycles},
    {"array.latency_cycles", &ChipConfig::array_latency_cycles, 0, kMaxCycles},
    {"launch.overhead_cycles", &ChipConfig::launch_overhead_cycles, 0, kMaxCycles},
    {"link.bytes_per_cycle", &ChipConfig::link_bytes_per_cycle, 1, 1024},
    {"link.latency_cycles", &ChipConfig::link_latency_cycles, 0, kMaxCycles},
    {"core.count", &ChipConfig::core_count, 1, 64},
    {"core.start_cycles", &ChipConfig::core_start_cycles, 0, kMaxCycles},
    {"network.columns", &ChipConfig::network_columns, 1, 64},
    {"network.link_bytes", &ChipConfig::network_link_bytes, 1, 1024, Range::kPowerOfTwo},
    {"network.router_cycles", &ChipConfig::network_router_cycles, 0, kMaxCycles},
    {"energy.mac_bf16", &ChipConfig::energy_mac_bf16, 0, kMostEnergy},
    {"energy.mac_fp16", &ChipConfig::energy_mac_fp16, 0, kMostEnergy},
    {"energy.mac_fp32", &ChipConfig::energy_mac_fp32, 0, kMostEnergy},
    {"energy.mac_int8", &ChipConfig::energy_mac_int8, 0, kMostEnergy},
    {"energy.lane", &ChipConfig::energy_lane, 0, kMostEnergy},
    {"energy.exp_lane", &ChipConfig::energy_exp_lane, 0, kMostEnergy},
    {"energy.register_row", &ChipConfig::energy_register_row, 0, kMostEnergy},
    {"energy.scratchpad_row", &ChipConfig::energy_scratchpad_row, 0, kMostEnergy},
    {"energy.bus_beat", &ChipConfig::energy_bus_beat, 0, kMostEnergy},
    {"energy.packet", &ChipConfig::energy_packet, 0, kMostEnergy},
    {"energy.link_byte", &ChipConfig::energy_link_byte, 0, kMostEnergy},
    {"energy.network_link_byte", &ChipConfig::energy_network_link_byte, 0, kMostEnergy},
    {"energy.router_byte", &ChipConfig::energy_router_byte, 0, kMostEnergy},
    {"energy.leakage", &ChipConfig::energy_leakage, 0, kMostEnergy},
    {"area.multiply_add", &ChipConfig::area_multiply_add, 0, kMostArea},
    {"area.lane", &ChipConfig::area_lane, 0, kMostArea},
    {"area.register_byte", &ChipConfig::area_register_byte, 0, kMostArea},
    {"area.sram_byte", &ChipConfig::area_sram_byte, 0, kMostArea},
    {"area.scalar_core", &ChipConfig::area_scalar_core, 0, kMostArea},
    {"telemetry.records", &ChipConfig::telemetry_records, 1, 16'777'216},
};

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
  for (const IntegerField<ChipConfig>& field : kIntegers) {
    if (const atalla_status status = reader.integer(field, config)) return status;
  }
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
