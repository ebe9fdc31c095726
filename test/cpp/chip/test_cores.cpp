// SPDX-License-Identifier: BSD-3-Clause
//
// Operands in the scratchpads, and launches over several cores: results, traffic and cycles.
#include "chip/support.h"

using namespace chip_test;

namespace {

atalla_addr scratchpads(const OpenDevice& device) {
  atalla_addr base = 0;
  CHECK_OK(schedule().scratchpad_base(device.handle, &base));
  return base;
}

std::string with_cores(int cores) {
  return replaced(builtin_config(), "count = { value = 1, unit = \"cores\"",
                  "count = { value = " + std::to_string(cores) + ", unit = \"cores\"");
}

atalla_launch_desc binary(const char* name, const atalla_operand& out, const atalla_operand& a,
                          const atalla_operand& b) {
  atalla_launch_desc desc{};
  desc.kernel = kernel(name);
  desc.n_outputs = 1;
  desc.n_operands = 3;
  desc.compute_dtype = ATALLA_F32;
  desc.operands[0] = out;
  desc.operands[1] = a;
  desc.operands[2] = b;
  return desc;
}

atalla_launch_desc product(atalla_addr out, atalla_addr a, atalla_addr b, int64_t m, int64_t n, int64_t k) {
  atalla_launch_desc desc = binary("gemm", tensor(out, {1, m, n}), tensor(a, {1, m, k}), tensor(b, {1, k, n}));
  desc.fparams[0] = 1;
  return desc;
}

atalla_launch_record estimate(const OpenDevice& device, atalla_launch_desc desc, int cores = 0) {
  desc.cores = static_cast<uint8_t>(cores);
  atalla_launch_record record{};
  CHECK_OK(api().launch_estimate(device.handle, &desc, sizeof desc, &record));
  return record;
}

atalla_launch_work work_of(const atalla_launch_desc& desc) {
  atalla_launch_work work{};
  work.struct_size = sizeof work;
  CHECK_OK(schedule().launch_work(&desc, sizeof desc, &work));
  return work;
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
  CHECK_OK(launch(device.stream, binary("pointwise.mul", b, a, b)));
  CHECK_OK(launch(device.stream, binary("pointwise.mul", out, b, b)));
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

// Records tell what each launch occupies: two tiles of each operand, blocks of a product's operands in DRAM, operands
// that lie in the scratchpads, at most both scratchpads.
void test_occupied() {
  const OpenDevice device;
  const atalla_addr pad = scratchpads(device), dram = device.alloc(8 << 20);
  const auto occupied = [&](const atalla_launch_desc& desc) {
    CHECK_OK(launch(device.stream, desc));
    std::vector<atalla_work_record> records(64);
    size_t count = records.size();
    CHECK_OK(api().work_records(device.handle, 0, records.data(), sizeof records[0], &count));
    return records[count - 1].scratchpad_bytes;
  };
  const uint32_t tile = 2048;
  const atalla_operand out = tensor(dram, {1024}), a = tensor(dram + 4096, {1024}), b = tensor(pad, {1024});
  CHECK_OK(launch(device.stream, fill(a, 1.0f)));
  CHECK_OK(launch(device.stream, fill(b, 1.0f)));
  CHECK_EQ(occupied(binary("pointwise.mul", out, a, a)), 3 * 2 * tile);
  CHECK_EQ(occupied(binary("pointwise.mul", out, a, b)), 3 * 2 * tile + 4096);
  CHECK_EQ(occupied(product(dram, dram + (1 << 20), dram + (2 << 20), 32, 64, 128)),
           3 * 2 * tile + 4 * (32 * 128 + 128 * 64));
  CHECK_EQ(occupied(product(dram, dram + (1 << 20), dram + (4 << 20), 128, 384, 1536)), 2u << 20);
  atalla_copy_params params{};
  params.struct_size = sizeof params;
  params.kind = ATALLA_COPY_DEVICE_TO_DEVICE;
  params.dst = dram, params.src = dram + 4096, params.row_bytes = 64;
  CHECK_OK(api().copy(device.stream, &params));
  CHECK_OK(api().stream_synchronize(device.stream));
  std::vector<atalla_work_record> records(64);
  size_t count = records.size();
  CHECK_OK(api().work_records(device.handle, 0, records.data(), sizeof records[0], &count));
  CHECK_EQ(records[count - 1].kind, uint32_t{ATALLA_COPY_DEVICE_TO_DEVICE});
  CHECK_EQ(records[count - 1].scratchpad_bytes, 0u);
}

// With half of the operands on the chip, half of the traffic remains. 1 << 18 elements are 512 tiles per operand.
void test_traffic() {
  const OpenDevice device;
  const atalla_addr pad = scratchpads(device), dram = device.alloc(8 << 20);
  const int64_t n = 1 << 18;
  const auto all = estimate(device, binary("pointwise.mul", tensor(dram, {n}), tensor(dram, {n}), tensor(dram, {n})));
  const auto some = estimate(device, binary("pointwise.mul", tensor(dram, {n}), tensor(pad, {n}), tensor(dram, {n})));
  CHECK_EQ(all.sdma_cycles, 3 * 512u * 520u);
  CHECK_EQ(some.sdma_cycles, 2 * 512u * 520u);
  CHECK_EQ(some.dram_bytes_read, static_cast<uint64_t>(n) * 4);
  CHECK_EQ(all.vector_cycles, some.vector_cycles);
  CHECK(some.cycles < all.cycles);
  // A of a product whose B takes two panels is read once for each of them, unless it lies on the chip.
  const auto reads = estimate(device, product(dram, dram, dram, 512, 384, 1536));
  const auto once = estimate(device, product(dram, pad, dram, 512, 384, 1536));
  CHECK_EQ(reads.dram_bytes_read, 2 * 512u * 1536 * 4 + 384u * 1536 * 4);
  CHECK_EQ(once.dram_bytes_read, 384u * 1536 * 4);
}

void test_cores() {
  uint64_t cycles[5] = {};
  for (const int cores : {1, 2, 4}) {
    const ConfigFile config(with_cores(cores));
    const OpenDevice device({.config = config.path()});
    uint32_t found = 0;
    CHECK_OK(schedule().core_count(device.handle, &found));
    CHECK_EQ(found, static_cast<uint32_t>(cores));
    const atalla_addr pad = scratchpads(device);
    // All on chip: 32 columns tiles of 256 x 128 products, bound by the array.
    const atalla_launch_desc desc = product(pad, pad, pad, 256, 1024, 128);
    const atalla_launch_work work = work_of(desc);
    CHECK_EQ(work.parts, 32u);
    CHECK_EQ(work.shared, 1u << 1);
    for (const int asked : {0, 1, 2, 3, 4, 200}) {
      const uint64_t n = static_cast<uint64_t>(std::clamp(asked, 1, cores));
      const auto record = estimate(device, desc, asked);
      const uint64_t busiest = (32 + n - 1) / n;
      CHECK_EQ(record.array_cycles, (work.array_rows + work.weight_rows) * busiest / 32);
      CHECK_EQ(record.sdma_cycles, 0u);
      if (asked == cores) cycles[cores] = record.cycles;
    }
    // From DRAM each further core reads A again, and the bus is one.
    const atalla_addr dram = device.alloc(8 << 20);
    const auto one = estimate(device, product(dram, dram, dram, 256, 1024, 128), 1);
    const auto more = estimate(device, product(dram, dram, dram, 256, 1024, 128), cores);
    CHECK_EQ(more.dram_bytes_read - one.dram_bytes_read, static_cast<uint64_t>(cores - 1) * 256 * 128 * 4);
    CHECK(more.sdma_cycles >= one.dram_bytes_read / 8 * 2);
    // A launch of one part stays on one core.
    const auto tiny = fill(tensor(dram, {16}), 1.0f);
    CHECK_EQ(estimate(device, tiny, cores).cycles, estimate(device, tiny, 1).cycles);
  }
  // 128 tiles of B, which two blocks of rows pass: 256 rows a tile, 32 pushes for each block, 64 to transpose it; and
  // 5 packets for each block, 48 to transpose, 30 for each of the 64 ends of blocks, the stores of 256 x 32 rows.
  const uint64_t array = 128 * (256 + 2 * 32 + 64), packets = 128 * (2 * 5 + 48) + 64 * 30 + 256 * 32;
  // The core copies the 2 KiB tiles of all operands, 32 rows and a load's and a store's latency each.
  const uint64_t copies = (256 * 128 + 128 * 1024 + 256 * 1024) * 4 / 2048 * (32 + 15 + 2);
  // Overhead, latency, 32 for each further core.
  CHECK_EQ(cycles[1], 64 + array + packets + copies + 45);
  CHECK_EQ(cycles[2], 64 + (array + packets + copies) / 2 + 45 + 32);
  CHECK_EQ(cycles[4], 64 + (array + packets + copies) / 4 + 45 + 96);
}

// The cycles of a work on a chip that exists on paper are those that a device with its file charges.
void test_work_cycles() {
  const std::string four = with_cores(4);
  for (const std::string& chip : {builtin_config(), four, replaced(builtin_config(), "\"constant\"", "\"ddr4_3200\""),
                                  replaced(four, "\"constant\"", "\"lpddr5_6400\"")}) {
    const ConfigFile config(chip);
    const OpenDevice device({.config = config.path()});
    const atalla_addr pad = scratchpads(device), dram = device.alloc(64 << 20);
    const std::vector<atalla_launch_desc> launches = {
        product(dram, dram, dram, 512, 384, 1536), product(pad, dram, dram, 256, 128, 128),
        binary("pointwise.mul", tensor(dram, {96, 64}), tensor(pad, {96, 64}), tensor(dram, {96, 64})),
        binary("pointwise.mul", tensor(dram, {300, 70}), tensor(dram, {300, 70}), tensor(dram, {300, 70}))};
    const uint32_t residents[] = {0, 1, 2, 0};
    for (size_t i = 0; i < launches.size(); ++i) {
      const atalla_launch_work work = work_of(launches[i]);
      for (const uint32_t cores : {1u, 3u, 4u, 9u}) {
        uint64_t cycles = 0;
        CHECK_OK(schedule().work_cycles(chip.c_str(), &work, residents[i], cores, &cycles));
        CHECK_EQ(cycles, estimate(device, launches[i], static_cast<int>(cores)).cycles);
      }
    }
  }
  atalla_launch_work work = work_of(product(64, 64, 64, 32, 32, 32));
  uint64_t cycles = 0;
  CHECK_FAILS(schedule().work_cycles(nullptr, &work, 0, 1, &cycles), ATALLA_ERR_ARGUMENT, "null");
  CHECK_FAILS(schedule().work_cycles("format = 1", &work, 0, 1, &cycles), ATALLA_ERR_CONFIG, "chip file");
  work.parts = 0;
  CHECK_FAILS(schedule().work_cycles(four.c_str(), &work, 0, 1, &cycles), ATALLA_ERR_ARGUMENT, "0 parts");
}

// On DDR4, whose rows close after four accesses, the rows of a wide matrix are spread over more banks than contiguous
// ones; writes keep a bank busy for longer than reads.
void test_layouts() {
  const std::string chip = replaced(builtin_config(), "\"constant\"", "\"ddr4_3200\"");
  const ConfigFile config(chip);
  const OpenDevice device({.config = config.path()});
  const atalla_addr dram = device.alloc(64 << 20);
  const atalla_operand flat = tensor(dram, {1024, 1024});
  atalla_operand wide = tensor(dram, {1024, 1024});
  wide.strides[0] = 2048;
  const auto contiguous = estimate(device, binary("pointwise.mul", flat, flat, flat));
  const auto spread = estimate(device, binary("pointwise.mul", wide, wide, wide));
  CHECK(spread.sdma_cycles < contiguous.sdma_cycles * 3 / 4);
  const auto written = estimate(device, fill(flat, 1.0f));
  CHECK(written.sdma_cycles > contiguous.sdma_cycles * 2 / 5);
  CHECK_EQ(estimate(device, fill(flat, 1.0f)).cycles, written.cycles);
}

void test_work() {
  const atalla_operand a = tensor(64, {64, 32}), row = [] {
    atalla_operand operand = tensor(64, {64, 32});
    operand.strides[0] = 0;
    return operand;
  }();
  const atalla_launch_work work = work_of(binary("pointwise.mul", a, a, row));
  CHECK_EQ(work.parts, 2u);
  CHECK_EQ(work.shared, 1u << 2);  // the row, which every core needs
  CHECK_EQ(work.written, 1u);
  CHECK_EQ(work.bytes_read, 64u * 32 * 4 + 32 * 4);
  CHECK_EQ(work.operand_bytes[0], 64u * 32 * 4);
  CHECK_EQ(work.operand_bytes[1], 64u * 32 * 4);
  CHECK_EQ(work.operand_bytes[2], 32u * 4);
  atalla_launch_work small{};
  const atalla_launch_desc desc = fill(a, 0.0f);
  CHECK_FAILS(schedule().launch_work(&desc, sizeof desc, &small), ATALLA_ERR_ARGUMENT, "struct_size");
  CHECK_FAILS(schedule().launch_work(&desc, 8, &small), ATALLA_ERR_ARGUMENT, "descriptor");
  const atalla_schedule_api* table = nullptr;
  CHECK_FAILS(atalla_get_schedule_api(9, &table), ATALLA_ERR_VERSION, "version 9");
}

}  // namespace

int main() {
  test_residents();
  test_occupied();
  test_traffic();
  test_cores();
  test_work();
  test_work_cycles();
  test_layouts();
  return check_report();
}
