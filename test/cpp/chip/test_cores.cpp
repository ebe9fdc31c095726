// SPDX-License-Identifier: BSD-3-Clause
//
// Operands in the scratchpads, and chips of several cores: results, traffic and cycles.
#include "chip/support.h"

using namespace chip_test;

namespace {

atalla_addr scratchpads(const OpenDevice& device) {
  atalla_addr base = 0;
  CHECK_OK(schedule().scratchpad_base(device.handle, &base));
  return base;
}

atalla_launch_desc product(atalla_addr out, atalla_addr a, atalla_addr b, int64_t m, int64_t n, int64_t k) {
  return describe("gemm", {tensor(out, {1, m, n}), tensor(a, {1, m, k}), tensor(b, {1, k, n})});
}

// fill -> scratchpad, scratchpad * scratchpad -> scratchpad, copy -> DRAM: the bytes are there, and none of it passed
// the bus but the last.
void test_residents() {
  const OpenDevice device;
  const atalla_addr pad = scratchpads(device), dram = device.alloc(4096);
  const atalla_operand a = tensor(pad, {1024}), b = tensor(pad + (1 << 20), {1024}), out = tensor(dram, {1024});
  CHECK_OK(launch(device.stream, fill(a, 3.0f)));
  CHECK_OK(launch(device.stream, fill(b, 0.5f)));
  CHECK_EQ(device.counters().dram_bytes_written, 0u);
  CHECK_EQ(device.counters().sdma_cycles, 0u);
  CHECK_OK(launch(device.stream, describe("pointwise.mul", {b, a, b})));
  CHECK_OK(launch(device.stream, describe("pointwise.mul", {out, b, b})));
  CHECK_OK(api().stream_synchronize(device.stream));
  const float* found = device.view<float>(dram, 1024);
  CHECK(std::all_of(found, found + 1024, [](float x) { return x == 2.25f; }));
  CHECK_EQ(device.counters().dram_bytes_written, 4096u);
  CHECK_EQ(device.counters().dram_bytes_read, 0u);
  // The window ends with the second scratchpad, and host views do not reach it.
  CHECK_FAILS(launch(device.stream, fill(tensor(pad + (2 << 20) - 4096 + 4, {1024}), 1.0f)), ATALLA_ERR_FAULT_ADDRESS,
              "leaves the DRAM");
  api().stream_synchronize(device.stream);
  void* host = nullptr;
  CHECK_FAILS(api().device_host_view(device.handle, pad, 64, &host), ATALLA_ERR_FAULT_ADDRESS, "outside the DRAM");
}

// Records tell what each launch occupies: two tiles of each operand. A copy occupies nothing.
void test_occupied() {
  const OpenDevice device;
  const atalla_addr pad = scratchpads(device), dram = device.alloc(8 << 20);
  const atalla_operand out = tensor(dram, {1024}), a = tensor(dram + 4096, {1024}), b = tensor(pad, {1024});
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

// With a third of the operands on the chip, two thirds of the traffic remain. 1 << 18 elements are 512 tiles per
// operand, and 8,192 vectors.
void test_traffic() {
  const OpenDevice device;
  const atalla_addr pad = scratchpads(device), dram = device.alloc(8 << 20);
  const uint64_t bytes = 1 << 20, tile = 8 + 256 * 2;
  const atalla_operand in_dram = tensor(dram, {1 << 18}), on_chip = tensor(pad, {1 << 18});
  const auto all = device.estimate(describe("pointwise.mul", {in_dram, in_dram, in_dram}));
  const auto some = device.estimate(describe("pointwise.mul", {in_dram, on_chip, in_dram}));
  const auto none = device.estimate(describe("pointwise.mul", {on_chip, on_chip, on_chip}));
  CHECK_EQ(all.cycles, 64 + 3 * 512 * tile + 22);
  CHECK(all.dram_bytes_read == 2 * bytes && all.dram_bytes_written == bytes);
  CHECK_EQ(some.cycles, 64 + 2 * 512 * tile + 22);
  CHECK(some.dram_bytes_read == bytes && some.dram_bytes_written == bytes);
  CHECK_EQ(none.cycles, 64 + 8192 * 2 + 22u);
  CHECK(none.dram_bytes_read == 0 && none.dram_bytes_written == 0 && none.sdma_cycles == 0);
  CHECK(all.vector_cycles == 16384 && some.vector_cycles == 16384 && none.vector_cycles == 16384);
  const auto array = device.estimate(product(pad, pad, pad, 256, 1024, 128));
  CHECK_EQ(array.cycles, 64 + 256 * 1024 * 128 / 1024 + 45u);
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
  test_residents();
  test_occupied();
  test_traffic();
  test_cores();
  return check_report();
}
