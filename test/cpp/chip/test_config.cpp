// SPDX-License-Identifier: BSD-3-Clause
//
// Chip files: each kind of mistake is one error with its line and reason.
#include "chip/support.h"

using namespace chip_test;

namespace {

atalla_status open_with(const std::string& text) {
  const ConfigFile file(text);
  atalla_device_params params{};
  params.struct_size = sizeof params;
  params.dram_bytes = 1 << 20;
  params.chip_config = file.path();
  atalla_device device = nullptr;
  const atalla_status status = api().device_open(&params, &device);
  if (status == ATALLA_OK) api().device_close(device);
  return status;
}

int line_of(const std::string& text, std::string_view part) {
  const size_t at = text.find(part);
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

void test_mistakes() {
  const std::string text = builtin_config();
  CHECK_OK(open_with(text));
  const struct {
    const char* from;
    const char* to;
    const char* reason;
  } mistakes[] = {
      {"format = 1", "format = 2", "format: expected 1"},
      {"format = 1", "", "format: missing"},
      {"format = 1", "format 1", "expected = after the key"},
      {"format = 1", "format = ", "has no value"},
      {"format = 1", "format = 01", "neither a number nor a string"},
      {"format = 1", "format = 1 1", "after the value"},
      {"format = 1", "format = true", "\"true\" is neither a number nor a string"},
      {"format = 1", "format = 99999999999999999999", "beyond 64 bits"},
      {"format = 1", "format = 1_", "neither a number"},
      {"[chip]", "[chip", "expected ] after the table name"},
      {"[chip]", "[]", "expected a key"},
      {"[dram]", "[chip]", "table [chip] appears twice"},
      {"[dram]", "[drum]", "dram.preset: the parameter or its value is missing"},
      {"\"constant\"", "\"ddr9\"", "dram.preset is \"ddr9\"; expected constant, ddr4_3200"},
      {"clock_hz =", "clock =", "chip.clock_hz: the parameter or its value is missing"},
      {"devices = {", "devices = 2 #", "expected { value = ..., unit"},
      {"\"Atalla Ax01\"", "\"Atalla Ax01", "expected , or }"},
      {"\"Atalla Ax01\"", "\"Atalla \\n\"", "escapes"},
      {"\"Atalla Ax01\"", "\"\"", "1 to 63 bytes"},
      {"\"Atalla Ax01\"", "{ a = 1 }", "inline table inside an inline table"},
      {"value = 2.0", "value = 0.0", "sdma.beat_cycles: expected a number from 0.001"},
      {"value = 2.0", "value = -2.0", "expected a number from 0.001"},
      {"value = 2.0", "value = 2.", "neither a number"},
      {"value = 2.0", "value = nan", "neither a number"},
      {"value = 800_000_000", "value = 0", "the value is 0; expected an integer from 1"},
      {"value = 800_000_000", "value = 8.0e8", "expected an integer"},
      {"value = 64, unit = \"bytes\"", "value = 48, unit = \"bytes\"", "the value is 48; expected a power of two"},
      {"unit = \"Hz\", ", "", "has no unit"},
      {"unit = \"Hz\"", "unit = \"MHz\"", "line 14: chip.clock_hz: the unit is \"MHz\"; expected \"Hz\""},
      {"value = 1_048_576", "value = 1_024",
       "line 27: scratchpad.bytes: the value is 1024; expected at least those of a tile"},
      {"mac_bf16 = { value = 2_000", "mac_bf16 = { value = -1", "expected an integer from 0"},
      {"mac_bf16 =", "mac_bf61 =", "energy.mac_bf16: the parameter or its value is missing"},
      {"source = \"ISA sheet: BF16\"", "source = \"\"", "sdma.element_bytes: the parameter has no source"},
      {", source = \"ISA sheet: BF16\"", "", "sdma.element_bytes: the parameter has no source"},
      {"[telemetry]", "[telemetry]\ncolour = { value = 3, unit = \"\", source = \"x\" }", "this parameter is unknown"},
      {"[telemetry]", "[telemetry]\nrecords = { value = 3 }", "appears twice"},
      {"[sdma]", "[sdma]\nsetup_cycles.value = 3", "expected = after the key"},
      {"rows = { value = 32, unit = \"rows\", source = \"ISA sheet: 32 x 32",
       "rows = { value = 0, unit = \"rows\", source = \"x",
       "array.rows: the value is 0; expected an integer from 1 to 1024"},
      {"element_bytes = { value = 2", "element_bytes = { value = 4",
       "sdma.element_bytes: the value is 4; the simulator supports 2 only: the SDMA's instructions move BF16"},
      {"ports = { value = 3", "ports = { value = 0",
       "scratchpad.ports: the value is 0; expected an integer from 1 to 16"},
      {"ports = { value = 3, unit = \"rows per cycle\"", "ports = { value = 3, unit = \"rows\"",
       "scratchpad.ports: the unit is \"rows\"; expected \"rows per cycle\""},
      {"banks = { value = 32", "banks = { value = 24",
       "scratchpad.banks: the value is 24; expected a power of two from 1"},
      {"[instruction_cache]\nbytes = { value = 0", "[instruction_cache]\nbytes = { value = 1000",
       "instruction_cache.bytes: the value is 1000; expected 0 or a power of two from 0"},
      {"[instruction_cache]\nbytes = { value = 0", "[instruction_cache]\nbytes = { value = 64",
       "instruction_cache.line_bytes: the value is 64; expected at most half of instruction_cache.bytes, 32"},
      {"[data_cache]\nbytes = { value = 0", "[data_cache]\nbytes = { value = 32",
       "data_cache.line_bytes: the value is 64; expected at most half of data_cache.bytes, 16"},
      {"ways = { value = 2", "ways = { value = 3", "instruction_cache.ways: the value is 3; expected a power of two"},
      {"bytes = { value = 0, unit = \"bytes\", source = \"decision: not published; 0: all packets are there\" }\n"
       "line_bytes = { value = 64, unit = \"bytes\", source = \"assumption: a row of a scratchpad, eight beats of the "
       "bus\" }\nways = { value = 2",
       "bytes = { value = 128, unit = \"bytes\", source = \"x\" }\nline_bytes = { value = 64, unit = \"bytes\", source "
       "= \"x\" }\nways = { value = 4",
       "instruction_cache.ways: the value is 4; expected at most the lines of the cache, 2"},
      {"line_bytes = { value = 64", "line_bytes = { value = 48",
       "instruction_cache.line_bytes: the value is 48; expected a power of two from 32 to 4096"},
  };
  for (const auto& mistake : mistakes) {
    CHECK_FAILS(open_with(replaced(text, mistake.from, mistake.to)), ATALLA_ERR_CONFIG, mistake.reason);
  }
  // The line is the file's.
  const std::string wrong = replaced(text, "value = 1_048_576", "value = 1_048_577");
  CHECK_FAILS(open_with(wrong), ATALLA_ERR_CONFIG, "line " + std::to_string(line_of(text, "value = 1_048_576")) + ":");
  const std::string broken = replaced(text, "[vector]", "[vector");
  CHECK_FAILS(open_with(broken), ATALLA_ERR_CONFIG, "line " + std::to_string(line_of(text, "[vector]")) + ":");
}

void test_files() {
  atalla_device_params params{};
  params.struct_size = sizeof params;
  atalla_device device = nullptr;
  params.chip_config = "/nowhere/chip.toml";
  CHECK_FAILS(api().device_open(&params, &device), ATALLA_ERR_CONFIG, "/nowhere/chip.toml\": No such file");
  params.chip_config = "/";
  CHECK_FAILS(api().device_open(&params, &device), ATALLA_ERR_CONFIG, "Is a directory");
  params.chip_config = "/dev/zero";
  CHECK_FAILS(api().device_open(&params, &device), ATALLA_ERR_CONFIG, "larger than");
  CHECK_FAILS(open_with(""), ATALLA_ERR_CONFIG, "format: missing");
  CHECK_EQ(open_with(std::string("\0\0\0", 3)), ATALLA_ERR_CONFIG);
  CHECK(device == nullptr);
}

// Any prefix and any one changed byte: an error or a configuration, never a crash.
void test_mutations() {
  const std::string text = builtin_config();
  int refused = 0;
  for (size_t n = 0; n < text.size(); n += 37) refused += open_with(text.substr(0, n)) == ATALLA_ERR_CONFIG;
  CHECK(refused > 50);
  for (size_t n = 0; n < text.size(); n += 11) {
    std::string changed = text;
    changed[n] = static_cast<char>(changed[n] ^ (1 + n % 255));
    const atalla_status status = open_with(changed);
    if (status != ATALLA_OK) CHECK_EQ(status, ATALLA_ERR_CONFIG);
  }
}

// What a file says is what the device is.
void test_values() {
  std::string text = replaced(builtin_config(), "\"Atalla Ax01\"", "\"Half \\\"Ax\\\"\"  ");
  text = replaced(text, "value = 800_000_000", "value = 900_000_000");
  const ConfigFile file(text + "\r\n# the end\r\n");
  const OpenDevice device({.config = file.path()});
  const atalla_device_properties properties = device.properties();
  CHECK_EQ(std::string(properties.name), "Half \"Ax\"");
  CHECK_EQ(properties.clock_hz, 9e8);
}

}  // namespace

int main() {
  test_mistakes();
  test_files();
  test_mutations();
  test_values();
  return check_report();
}
