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
#include "sim/device/toml.h"

namespace atalla::sim {
namespace {

enum class Range { kAny, kPowerOfTwo };

// A parameter that the simulator cannot follow has one supported value (low == high), with the reason. Taking another
// one and ignoring it would give cycles of a chip that the file does not describe.
struct IntegerField {
  const char* key;
  uint64_t ChipConfig::* member;
  uint64_t low;
  uint64_t high;
  Range range = Range::kAny;
  const char* only = nullptr;
};

constexpr const char* kRow =
    "the scratchpads are allocated, and addressed by instructions, in rows of 32 BF16 elements";
constexpr const char* kElement = "the SDMA's instructions move BF16 elements";

constexpr uint64_t kMaxCycles = 1'000'000;
constexpr uint64_t kMaxEdge = 1024;  // of the array, a vector and a tile

constexpr IntegerField kIntegers[] = {
    {"chip.clock_hz", &ChipConfig::chip_clock_hz, 1, 1'000'000'000'000},
    {"chip.devices", &ChipConfig::chip_devices, 2, 2, Range::kAny, "ATALLA_DEVICE_COUNT sets the number of devices"},
    {"dram.bytes", &ChipConfig::dram_bytes, 4096, uint64_t{1} << 46},
    {"dram.alignment", &ChipConfig::dram_alignment, 16, 4096, Range::kPowerOfTwo},
    {"bus.width_bytes", &ChipConfig::bus_width_bytes, 1, 1024, Range::kPowerOfTwo},
    {"scratchpad.count", &ChipConfig::scratchpad_count, 1, 64},
    {"scratchpad.bytes", &ChipConfig::scratchpad_bytes, 64, uint64_t{1} << 30, Range::kPowerOfTwo},
    {"scratchpad.row_bytes", &ChipConfig::scratchpad_row_bytes, 64, 64, Range::kAny, kRow},
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

// Takes the checked parameters out of a document; what is left in `pending` at the end is unknown.
class Reader {
 public:
  Reader(const TomlDocument& document, const char* where) : document_(document), where_(where) {
    for (const auto& [path, value] : document) pending_.insert(path);
  }

  atalla_status fail(int line, const char* reason, const std::string& key) const {
    if (line == 0) return set_error(ATALLA_ERR_CONFIG, "%s: %s: %s", where_, key.c_str(), reason);
    return set_error(ATALLA_ERR_CONFIG, "%s: line %d: %s: %s", where_, line, key.c_str(), reason);
  }

  const TomlValue* take(const std::string& path) {
    const auto found = document_.find(path);
    if (found == document_.end()) return nullptr;
    pending_.erase(path);
    return &found->second;
  }

  // The value of one parameter, after checking that it says unit and source.
  atalla_status parameter(const std::string& key, const TomlValue** value) {
    *value = take(key + ".value");
    if (*value == nullptr) {
      if (const TomlValue* plain = take(key)) {
        return fail(plain->line, "expected { value = ..., unit = \"...\", source = \"...\" }", key);
      }
      return fail(0, "the parameter or its value is missing", key);
    }
    const TomlValue* unit = take(key + ".unit");
    if (unit == nullptr || !std::holds_alternative<std::string>(unit->value)) {
      return fail((*value)->line, "the parameter has no unit (a string)", key);
    }
    const TomlValue* source = take(key + ".source");
    if (source == nullptr || !std::holds_alternative<std::string>(source->value) ||
        std::get<std::string>(source->value).empty()) {
      return fail((*value)->line, "the parameter has no source (a string that is not empty)", key);
    }
    return ATALLA_OK;
  }

  atalla_status integer(const IntegerField& field, ChipConfig* config) {
    const TomlValue* value = nullptr;
    if (const atalla_status status = parameter(field.key, &value)) return status;
    const int64_t* number = std::get_if<int64_t>(&value->value);
    if (number == nullptr) return fail(value->line, "expected an integer", field.key);
    const bool inside =
        *number >= 0 && static_cast<uint64_t>(*number) >= field.low && static_cast<uint64_t>(*number) <= field.high;
    if (!inside || (field.range == Range::kPowerOfTwo && !std::has_single_bit(static_cast<uint64_t>(*number)))) {
      char reason[160];
      if (field.only != nullptr) {
        snprintf(reason, sizeof reason, "the value is %" PRId64 "; the simulator supports %" PRIu64 " only: %s",
                 *number, field.low, field.only);
        return fail(value->line, reason, field.key);
      }
      snprintf(reason, sizeof reason, "the value is %" PRId64 "; expected %s from %" PRIu64 " to %" PRIu64, *number,
               field.range == Range::kPowerOfTwo ? "a power of two" : "an integer", field.low, field.high);
      return fail(value->line, reason, field.key);
    }
    config->*field.member = static_cast<uint64_t>(*number);
    return ATALLA_OK;
  }

  atalla_status finish() const {
    if (pending_.empty()) return ATALLA_OK;
    const auto found = document_.find(*pending_.begin());
    return fail(found->second.line, "this parameter is unknown", *pending_.begin());
  }

 private:
  const TomlDocument& document_;
  const char* where_;
  std::set<std::string> pending_;
};

}  // namespace

atalla_geometry ChipConfig::geometry() const {
  return {.struct_size = sizeof(atalla_geometry),
          .vector_lanes = static_cast<uint32_t>(vector_lanes),
          .array_rows = static_cast<uint32_t>(array_rows),
          .array_columns = static_cast<uint32_t>(array_columns),
          .scratchpad_bytes = scratchpad_bytes,
          .sdma_tile_rows = static_cast<uint32_t>(sdma_tile_rows),
          .sdma_tile_columns = static_cast<uint32_t>(sdma_tile_columns),
          .sdma_element_bytes = static_cast<uint32_t>(sdma_element_bytes),
          .bus_width_bytes = static_cast<uint32_t>(bus_width_bytes)};
}

atalla_status check_geometry(const atalla_geometry& geometry) {
  if (geometry.struct_size < sizeof geometry) {
    return set_error(ATALLA_ERR_ARGUMENT, "atalla_geometry of %u bytes; expected at least %zu", geometry.struct_size,
                     sizeof geometry);
  }
  const struct {
    const char* key;
    uint64_t value;
  } numbers[] = {{"vector.lanes", geometry.vector_lanes},
                 {"array.rows", geometry.array_rows},
                 {"array.columns", geometry.array_columns},
                 {"scratchpad.bytes", geometry.scratchpad_bytes},
                 {"sdma.tile_rows", geometry.sdma_tile_rows},
                 {"sdma.tile_columns", geometry.sdma_tile_columns},
                 {"sdma.element_bytes", geometry.sdma_element_bytes},
                 {"bus.width_bytes", geometry.bus_width_bytes}};
  for (const auto& [key, value] : numbers) {
    for (const IntegerField& field : kIntegers) {
      if (strcmp(field.key, key) == 0 && (value < field.low || value > field.high)) {
        return set_error(ATALLA_ERR_ARGUMENT, "%s is %" PRIu64 "; expected %" PRIu64 " to %" PRIu64, key, value,
                         field.low, field.high);
      }
    }
  }
  return ATALLA_OK;
}

atalla_status parse_chip_config(std::string_view text, const char* where, ChipConfig* config) {
  TomlDocument document;
  std::string error;
  if (!parse_toml(text, &document, &error)) return set_error(ATALLA_ERR_CONFIG, "%s: %s", where, error.c_str());
  Reader reader(document, where);
  const TomlValue* value = reader.take("format");
  if (value == nullptr) return reader.fail(0, "missing; expected 1", "format");
  if (value->value != decltype(value->value){int64_t{1}}) return reader.fail(value->line, "expected 1", "format");
  if (const atalla_status status = reader.parameter("chip.name", &value)) return status;
  const auto* name = std::get_if<std::string>(&value->value);
  if (name == nullptr || name->empty() || name->size() >= sizeof(atalla_device_properties::name)) {
    return reader.fail(value->line, "expected a string of 1 to 63 bytes", "chip.name");
  }
  config->chip_name = *name;
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
  for (const IntegerField& field : kIntegers) {
    if (const atalla_status status = reader.integer(field, config)) return status;
  }
  return reader.finish();
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
