// SPDX-License-Identifier: BSD-3-Clause
//
// Launches without code on the built-in chip: their work and cycles, computed by hand. Chips with other arrays and
// memories.
#include "chip/support.h"
#include "kernel_parameters.h"

using namespace chip_test;

namespace {

constexpr atalla_addr kAnywhere = 64;  // what is not launched needs no memory
constexpr uint64_t kMost = uint64_t{1} << 60;
constexpr uint64_t kMostUnits = uint64_t{1} << 48;

atalla_operand at(std::initializer_list<int64_t> sizes, atalla_dtype dtype = ATALLA_F32) {
  return tensor(kAnywhere, sizes, dtype);
}

struct Expected {
  const char* name;
  atalla_launch_desc desc;
  uint64_t read, written, macs, vector_ops, array_rows;
  uint64_t cycles;
};

void check(const OpenDevice& device, const Expected& expected) {
  const atalla_launch_work work = work_of(expected.desc);
  const atalla_launch_record record = device.estimate(expected.desc);
  bool good = CHECK_EQ(work.bytes_read, expected.read) && CHECK_EQ(work.bytes_written, expected.written);
  good &= CHECK_EQ(work.macs, expected.macs) && CHECK_EQ(work.vector_ops, expected.vector_ops);
  good &= CHECK_EQ(work.array_rows, expected.array_rows) && CHECK_EQ(record.cycles, expected.cycles);
  good &= CHECK_EQ(record.dram_bytes_read, expected.read) && CHECK_EQ(record.dram_bytes_written, expected.written);
  check::note(good && CHECK_EQ(record.macs, expected.macs), __FILE__, __LINE__, expected.name);
}

// Of queries [2, 3, l, 8], keys and values of 16 elements.
atalla_launch_desc attention(int64_t l, int64_t s, bool causal) {
  atalla_launch_desc desc = describe(
      "attention", {at({2, 3, l, 16}), {}, at({2, 3, l, 8}), at({2, 3, s, 8}), at({2, 3, s, 16})}, ATALLA_F32, 2);
  desc.operands[1].dtype = ATALLA_F32;  // no sums
  desc.iparams[0] = causal;
  return desc;
}

// A beat moves 8 bytes in 2 cycles, and each tile of 2,048 bytes takes 8 cycles more. 64 cycles of overhead come before
// the slower one of SDMA and core, and latencies of 22 cycles (vector) or 45 (array) after it.
void test_products() {
  const OpenDevice device;
  const atalla_operand square = at({1, 4096, 4096}, ATALLA_BF16), complex = at({1, 8, 8}, ATALLA_C64);
  const atalla_operand image = at({2, 6, 10, 9}), out = at({2, 8, 8, 8}), bias = at({8});
  const Expected launches[] = {
      {"gemm", describe("gemm", {at({1, 100, 50}), at({1, 100, 70}), at({1, 70, 50})}), 42'000, 20'000, 350'000, 0, 342,
       64 + (21 + 10) * 8 + (5'250 + 2'500) * 2 + 45},
      {"gemm, bound by the array", describe("gemm", {square, square, square}, ATALLA_BF16), 2 << 25, 1 << 25,
       uint64_t{1} << 36, 0, 1 << 26, 64 + (1 << 26) + 45},
      {"complex gemm", describe("gemm", {complex, complex, complex}, ATALLA_C64), 1'024, 512, 4 * 512, 0, 2,
       64 + 2 * 8 + 192 * 2 + 45},
      {"convolution", describe("convolution", {out, image, at({8, 3, 3, 2}), bias}), 4'928, 4'096, 1'024 * 18, 0, 18,
       64 + (3 + 2) * 8 + (616 + 512) * 2 + 45},
      {"convolution_packed", describe("convolution_packed", {out, image, at({1, 6, 3, 2, 32}), bias}), 8'960, 4'096,
       1'024 * 36, 0, 36, 64 + (5 + 2) * 8 + (1'120 + 512) * 2 + 45},
      {"conv_tbc", describe("conv_tbc", {at({5, 2, 4}), at({7, 2, 6}), at({3, 6, 4})}), 624, 160, 40 * 18, 0, 1,
       64 + 2 * 8 + 98 * 2 + 45},
      {"attention", attention(40, 30, false), 24'960, 15'360, 6 * 40 * 30 * 24, 0, 169,
       64 + (13 + 8) * 8 + (3'120 + 1'920) * 2 + 45},
      {"causal attention", attention(40, 30, true), 24'960, 15'360, 6 * (465 + 300) * 24, 0, 108,
       64 + (13 + 8) * 8 + (3'120 + 1'920) * 2 + 45},
      {"causal attention, more keys", attention(30, 40, true), 28'800, 11'520, 6 * 465 * 24, 0, 66,
       64 + (15 + 6) * 8 + (3'600 + 1'440) * 2 + 45}};
  for (const Expected& expected : launches) check(device, expected);
}

void test_vectors() {
  const OpenDevice device;
  const atalla_operand matrix = at({64, 33}), empty = at({0, 4});
  atalla_operand row = matrix;
  row.strides[0] = 0;
  const uint64_t huge = kMostUnits / 2048 * 8, beats = kMostUnits / 8 * 2;  // each way
  const atalla_operand absurd = at({1, int64_t{1} << 31, int64_t{1} << 31});
  const Expected launches[] = {
      {"a row for all", describe("pointwise.mul", {matrix, matrix, row}), 8'580, 8'448, 0, 66, 0,
       64 + (5 + 5) * 8 + (1'073 + 1'056) * 2 + 22},
      {"rows", describe("pointwise.mul", {row, row, row}), 264, 132, 0, 66, 0, 64 + 66 * 2 + 22},
      {"a value", fill(at({100}), 1.0f), 0, 400, 0, 4, 0, 64 + 8 + 50 * 2 + 22},
      {"sum", describe("reduce.sum", {at({1}), at({100})}), 400, 4, 0, 4, 0, 64 + 2 * 8 + 51 * 2 + 22},
      {"empty", describe("pointwise.mul", {empty, empty, empty}), 0, 0, 0, 0, 0, 64},
      {"gemm of depth 0", describe("gemm", {at({1, 4, 4}), at({1, 4, 0}), at({1, 0, 4})}), 0, 64, 0, 1, 0,
       64 + 8 + 8 * 2 + 22},
      {"absurd gemm", describe("gemm", {absurd, absurd, absurd}), kMost, kMost, kMost, 0, kMost / 1024,
       64 + std::max(2 * (huge + beats), kMostUnits) + 45},
      {"absurd vectors", describe("pointwise.mul", {absurd, absurd, absurd}), kMost, kMost, 0, kMost / 32, 0,
       64 + 2 * kMostUnits + 22}};
  for (const Expected& expected : launches) check(device, expected);
}

// Kernels that count their multiply-adds themselves.
void test_absurd_counts() {
  const int64_t edge = int64_t{1} << 31;
  const atalla_operand square = at({edge, edge}), cube = at({1, edge, edge});
  for (const atalla_launch_desc& desc :
       {describe("conv_tbc", {cube, cube, cube}), describe("gemm_grouped", {square, square, cube, at({1}, ATALLA_I32)}),
        describe("gemm_quantized", {square, square, square, square})})
    CHECK_EQ(work_of(desc).macs, kMost);
}

// Of a tile program that finds addresses in memory, only what it reads through arguments counts.
void test_whole_memory() {
  const OpenDevice device;
  const atalla_operand memory = at({int64_t{1} << 34}, ATALLA_U8), table = at({64}, ATALLA_U8);
  atalla_launch_desc desc = describe("tile_program", {memory, table, at({42}, ATALLA_I64)});
  atalla::TileProgramParameters parameters{};
  parameters.whole_memory = 1;
  parameters.write(&desc);
  check(device, {"whole memory", desc, 400, 0, 0, 1, 0, 64 + 8 + 50 * 2 + 22});
}

// A smaller array takes more rows, and a slower bus more cycles. A DRAM with banks is a bus of another rate, wherever
// the elements of an operand lie.
void test_chips() {
  const std::string text = builtin_config();
  atalla_launch_desc desc = describe("gemm", {at({1, 100, 50}), at({1, 100, 70}), at({1, 70, 50})});
  const ConfigFile narrow(replaced(text, "value = 32, unit = \"columns\"", "value = 4, unit = \"columns\""));
  CHECK_EQ(OpenDevice({.config = narrow.path()}).estimate(desc).array_cycles, 2'735u);  // 350,000 / 128
  const ConfigFile slow(replaced(text, "value = 2.0", "value = 9.1"));
  CHECK_EQ(OpenDevice({.config = slow.path()}).estimate(desc).sdma_cycles, 31 * 8 + 70'525u);  // 7,750 beats
  for (const char* preset : {"ddr4_3200", "lpddr5_6400"}) {
    const ConfigFile banks(replaced(text, "\"constant\"", '"' + std::string(preset) + '"'));
    const OpenDevice device({.config = banks.path()});
    uint64_t beat = 0;
    CHECK_OK(schedule().beat_millicycles(device.handle, &beat));
    for (const int64_t stride : {70, 4096}) {
      desc.operands[1].strides[1] = stride;
      CHECK_EQ(device.estimate(desc).sdma_cycles, 31 * 8 + (7'750 * beat + 999) / 1'000);
    }
  }
}

void test_refused() {
  atalla_launch_work work{};
  const atalla_launch_desc desc = fill(at({4}), 0.0f);
  CHECK_FAILS(schedule().launch_work(&desc, sizeof desc, &work), ATALLA_ERR_ARGUMENT, "struct_size");
  CHECK_FAILS(schedule().launch_work(&desc, 8, &work), ATALLA_ERR_ARGUMENT, "descriptor");
  const atalla_schedule_api* table = nullptr;
  CHECK_FAILS(atalla_get_schedule_api(9, &table), ATALLA_ERR_VERSION, "version 9");
  CHECK_FAILS(atalla_get_schedule_api(1, &table), ATALLA_ERR_VERSION, "version 1");
}

}  // namespace

int main() {
  test_products();
  test_vectors();
  test_absurd_counts();
  test_whole_memory();
  test_chips();
  test_refused();
  return check_report();
}
