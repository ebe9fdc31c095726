// SPDX-License-Identifier: BSD-3-Clause
//
// These tests check how much of the scratchpads a launch occupies, and chips of several cores.
#include "chip/support.h"

using namespace chip_test;

namespace {

atalla_launch_desc product(atalla_addr out, atalla_addr a, atalla_addr b, int64_t m, int64_t n, int64_t k) {
  return describe("gemm", {tensor(out, {1, m, n}), tensor(a, {1, m, k}), tensor(b, {1, k, n})});
}

// Records tell what each launch occupies: two tiles of each operand. A copy occupies nothing.
void test_occupied() {
  const OpenDevice device;
  const atalla_addr dram = device.alloc(8 << 20);
  const atalla_operand out = tensor(dram, {1024}), a = tensor(dram + 4096, {1024}), b = tensor(dram + 8192, {1024});
  CHECK_OK(launch(device.stream, fill(a, 1.0f)));
  CHECK_OK(launch(device.stream, fill(b, 1.0f)));
  CHECK_OK(launch(device.stream, describe("pointwise.mul", {out, a, b})));
  CHECK_OK(launch(device.stream, product(dram, dram + (1 << 20), dram + (4 << 20), 128, 384, 1536)));
  CHECK_OK(copy(device.stream, ATALLA_COPY_DEVICE_TO_DEVICE, dram, dram + 4096, 64));
  const std::vector<atalla_work_record> records = device.records();
  const uint32_t occupied[] = {2, 2, 3, 3, 0};
  CHECK_EQ(records.size(), std::size(occupied));
  for (size_t i = 0; i < records.size(); ++i) CHECK_EQ(records[i].scratchpad_bytes, occupied[i] * 2 * 2048);
}

// A launch without code takes what it takes on one core.
void test_cores() {
  for (const int cores : {1, 2, 4}) {
    const ConfigFile config(replaced(builtin_config(), "count = { value = 1, unit = \"cores\"",
                                     "count = { value = " + std::to_string(cores) + ", unit = \"cores\""));
    const OpenDevice device({.config = config.path()});
    uint32_t found = 0;
    CHECK_OK(schedule().core_count(device.handle, &found));
    CHECK_EQ(found, static_cast<uint32_t>(cores));
    const atalla_addr dram = device.alloc(8 << 20);
    atalla_launch_desc desc = product(dram, dram, dram, 256, 1024, 128);
    const auto one = device.estimate(desc);
    for (const uint8_t asked : {1, 2, 4, 200}) {
      desc.cores = asked;
      const auto record = device.estimate(desc);
      CHECK_EQ(std::memcmp(&record, &one, sizeof one), 0);
    }
  }
}

}  // namespace

int main() {
  test_occupied();
  test_cores();
  return check_report();
}
