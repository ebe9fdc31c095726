// SPDX-License-Identifier: BSD-3-Clause
//
// Copies: one and two dimensions, between devices, and everything that must be refused.
#include <cstddef>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include "chip/support.h"
#include "sim/abi/atalla_link.h"

using namespace chip_test;

namespace {

std::vector<uint8_t> pattern(size_t bytes, unsigned seed) {
  std::vector<uint8_t> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>((i * 2654435761u + seed) >> 13);
  return data;
}

void test_round_trip() {
  const OpenDevice device;
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{4096}, size_t{262145}, size_t{5} << 20}) {
    const auto data = pattern(bytes, 1);
    std::vector<uint8_t> back(bytes);
    const atalla_addr a = device.alloc(bytes), b = device.alloc(bytes);
    CHECK_OK(copy(device.stream, ATALLA_COPY_HOST_TO_DEVICE, a, address(data.data()), bytes));
    CHECK_OK(copy(device.stream, ATALLA_COPY_DEVICE_TO_DEVICE, b, a, bytes));
    CHECK_OK(copy(device.stream, ATALLA_COPY_DEVICE_TO_HOST, address(back.data()), b, bytes));
    CHECK(back == data);
  }
}

// Copies into DRAM that nobody wrote yet, and into a mixture, leave what lies around them alone.
void test_fresh_pages() {
  const OpenDevice device;
  const uint64_t bytes = 4 << 20, piece = (1 << 19) + 100;
  const auto data = pattern(bytes, 5);
  for (const uint64_t begin : {uint64_t{0}, uint64_t{64}, uint64_t{4095}}) {
    const atalla_addr addr = device.alloc(bytes);
    std::vector<uint8_t> expected(bytes), found(bytes);
    CHECK_OK(copy(device.stream, ATALLA_COPY_DEVICE_TO_HOST, address(expected.data()), addr, begin));
    for (uint64_t at = begin; at + piece < bytes - 5000; at += piece) {
      CHECK_OK(copy(device.stream, ATALLA_COPY_HOST_TO_DEVICE, addr + at, address(data.data() + at), piece));
      std::memcpy(expected.data() + at, data.data() + at, piece);
    }
    CHECK_OK(copy(device.stream, ATALLA_COPY_DEVICE_TO_HOST, address(found.data()), addr, bytes));
    CHECK(found == expected);
    CHECK_OK(copy(device.stream, ATALLA_COPY_HOST_TO_DEVICE, addr, address(data.data()), bytes));
    CHECK_OK(copy(device.stream, ATALLA_COPY_DEVICE_TO_HOST, address(found.data()), addr, bytes));
    CHECK(found == data);
  }
}

void test_two_dimensions() {
  const OpenDevice device;
  for (const uint64_t rows : {uint64_t{7}, uint64_t{3000}}) {
    const uint64_t row = 301, dst_pitch = 320, src_pitch = 512;
    const auto data = pattern(rows * src_pitch, 2);
    const atalla_addr addr = device.alloc(rows * dst_pitch);
    std::memset(device.view<char>(addr, rows * dst_pitch), 0xEE, rows * dst_pitch);
    CHECK_OK(
        copy(device.stream, ATALLA_COPY_HOST_TO_DEVICE, addr, address(data.data()), row, rows, dst_pitch, src_pitch));
    const uint8_t* got = device.view<uint8_t>(addr, rows * dst_pitch);
    bool same = true, untouched = true;
    for (uint64_t r = 0; r < rows; ++r) {
      same &= std::memcmp(got + r * dst_pitch, data.data() + r * src_pitch, row) == 0;
      for (uint64_t i = row; i < dst_pitch; ++i) untouched &= got[r * dst_pitch + i] == 0xEE;
    }
    CHECK(same);
    CHECK(untouched);
    std::vector<uint8_t> packed(rows * row);  // pitch 0: rows are dense
    CHECK_OK(copy(device.stream, ATALLA_COPY_DEVICE_TO_HOST, address(packed.data()), addr, row, rows, 0, dst_pitch));
    CHECK(std::memcmp(packed.data() + (rows - 1) * row, data.data() + (rows - 1) * src_pitch, row) == 0);
  }
}

void test_overlap() {
  const OpenDevice device;
  const size_t bytes = 1 << 20, shift = 100;
  const auto data = pattern(bytes, 3);
  const atalla_addr addr = device.alloc(bytes + shift);
  for (const bool up : {true, false}) {
    const atalla_addr from = up ? addr : addr + shift, to = up ? addr + shift : addr;
    CHECK_OK(copy(device.stream, ATALLA_COPY_HOST_TO_DEVICE, from, address(data.data()), bytes));
    CHECK_OK(copy(device.stream, ATALLA_COPY_DEVICE_TO_DEVICE, to, from, bytes));
    CHECK(std::memcmp(device.view<uint8_t>(to, bytes), data.data(), bytes) == 0);
  }
}

void test_peers() {
  const OpenDevice first, second({.ordinal = 1});
  const size_t bytes = 300000;
  const auto data = pattern(bytes, 4);
  const atalla_addr a = first.alloc(bytes), b = second.alloc(bytes);
  CHECK_OK(copy(first.stream, ATALLA_COPY_HOST_TO_DEVICE, a, address(data.data()), bytes));
  CHECK_OK(api().counters_reset(first.handle));
  CHECK_OK(copy(first.stream, ATALLA_COPY_DEVICE_TO_DEVICE, b, a, bytes));
  CHECK(std::memcmp(second.view<uint8_t>(b, bytes), data.data(), bytes) == 0);
  CHECK_EQ(first.counters().dram_bytes_read, bytes);
  CHECK_EQ(first.counters().dram_bytes_written, 0u);
  CHECK_EQ(second.counters().dram_bytes_written, bytes);
  CHECK_EQ(second.counters().copies, 1u);
  CHECK_EQ(first.counters().host_bytes_from_device, 0u);
  std::memset(first.view<uint8_t>(a, bytes), 0, bytes);
  CHECK_OK(copy(first.stream, ATALLA_COPY_DEVICE_TO_DEVICE, a, b, bytes));  // pull
  CHECK(std::memcmp(first.view<uint8_t>(a, bytes), data.data(), bytes) == 0);
}

void test_refused() {
  const OpenDevice device;
  const atalla_device_properties properties = device.properties();
  const uint64_t base = properties.dram_base, end = base + properties.dram_bytes;
  char host[64] = {};
  const uint64_t here = address(host);
  const auto h2d = ATALLA_COPY_HOST_TO_DEVICE;
  const auto clear = [&] { return api().stream_synchronize(device.stream); };

  CHECK_OK(copy(device.stream, h2d, end - 64, here, 64));
  CHECK_OK(copy(device.stream, h2d, 0, 0, 0));  // nothing, from nowhere
  CHECK_FAILS(copy(device.stream, h2d, end - 63, here, 64), ATALLA_ERR_FAULT_ADDRESS, "the destination, 64 bytes");
  CHECK_EQ(clear(), ATALLA_ERR_FAULT_ADDRESS);
  CHECK_EQ(copy(device.stream, h2d, base - 1, here, 1), ATALLA_ERR_FAULT_ADDRESS);
  clear();
  CHECK_EQ(copy(device.stream, h2d, 0, here, 1), ATALLA_ERR_FAULT_ADDRESS);
  clear();
  CHECK_EQ(copy(device.stream, ATALLA_COPY_DEVICE_TO_DEVICE, base, end, 1), ATALLA_ERR_FAULT_ADDRESS);
  clear();
  CHECK_EQ(copy(device.stream, h2d, base, here, 1, 2, properties.dram_bytes, 1), ATALLA_ERR_FAULT_ADDRESS);
  clear();
  CHECK_OK(clear());
  CHECK_FAILS(copy(device.stream, h2d, base, here, 1, UINT64_MAX, UINT64_MAX, 1), ATALLA_ERR_ARGUMENT, "64-bit");
  CHECK_FAILS(copy(device.stream, h2d, base, 0, 1), ATALLA_ERR_ARGUMENT, "source is a null pointer");
  CHECK_FAILS(copy(device.stream, h2d, base, base, 1), ATALLA_ERR_ARGUMENT, "but is a device address");
  CHECK_FAILS(copy(device.stream, h2d, base, base - 8, 16), ATALLA_ERR_ARGUMENT, "but is a device address");
  CHECK_FAILS(copy(device.stream, ATALLA_COPY_DEVICE_TO_HOST, UINT64_MAX - 4, base, 64), ATALLA_ERR_ARGUMENT, "wraps");
  CHECK_FAILS(copy(device.stream, h2d, base, here, 8, 2, 4, 8), ATALLA_ERR_ARGUMENT, "destination's pitch is 4");
  CHECK_FAILS(copy(device.stream, h2d, base, here, 8, 2, 8, 4), ATALLA_ERR_ARGUMENT, "source's pitch is 4");
  for (const int kind : {0, 7, -1}) {
    atalla_copy_params params = copy_params(h2d, base, here, 8);
    std::memcpy(&params.kind, &kind, sizeof kind);
    CHECK_FAILS(api().copy(device.stream, &params), ATALLA_ERR_ARGUMENT, "kind " + std::to_string(kind));
  }
  CHECK_OK(clear());  // a bad argument does not stop the stream
}

// Records and counters of the same random copies, in one call each or in halves.
std::pair<std::vector<atalla_work_record>, atalla_counters> random_copies(bool halves) {
  const OpenDevice device;
  const atalla_addr at = device.alloc(1 << 16);
  std::vector<char> host(1 << 16);
  std::mt19937 random(11);
  const uint64_t sizes[] = {0, 1, 4, 64, 1000, 4096};
  for (int i = 0; i < 2000; ++i) {
    const int kind = 1 + static_cast<int>(random() % 3);
    const uint64_t bytes = sizes[random() % std::size(sizes)], rows = random() % 4;
    atalla_copy_params params =
        copy_params(kind, kind == ATALLA_COPY_DEVICE_TO_HOST ? address(host.data()) : at,
                    kind == ATALLA_COPY_HOST_TO_DEVICE ? address(host.data()) : at + (1 << 15), bytes, rows);
    params.dst_pitch = params.src_pitch = 4096;
    params.tag = static_cast<uint64_t>(i);
    params.waits = random() % 2;
    if (!halves) {
      CHECK_OK(api().copy(device.stream, &params));
      continue;
    }
    CHECK_OK(api().charge_copy(device.stream, &params));
    CHECK_OK(api().execute_copy(device.stream, &params));
    if (params.waits != 0) CHECK_OK(api().stream_synchronize(device.stream));
  }
  return {device.records(), device.counters()};
}

// A stream keeps its latest charges; halves compute each anew.
void test_charges() {
  const auto [kept, counted] = random_copies(false);
  const auto [anew, counted_anew] = random_copies(true);
  CHECK(kept.size() > 1500);
  CHECK_EQ(kept.size(), anew.size());
  for (size_t i = 0; i < kept.size(); ++i) CHECK_EQ(std::memcmp(&kept[i], &anew[i], sizeof kept[i]), 0);
  CHECK_EQ(std::memcmp(&counted, &counted_anew, sizeof counted), 0);
}

// Only a copy that waits is past for what the caller submits to other streams.
void test_waits() {
  const OpenDevice device;
  const atalla_addr at = device.alloc(4096);
  std::vector<char> host(4096);
  const auto start_behind = [&](uint32_t waits) {
    atalla_stream other = nullptr;
    CHECK_OK(api().stream_create(device.handle, 0, &other));
    atalla_copy_params params = copy_params(ATALLA_COPY_DEVICE_TO_HOST, address(host.data()), at, 4096);
    params.waits = waits;
    CHECK_OK(api().copy(device.stream, &params));
    const uint64_t end = device.records().back().end_cycle;
    params.waits = 0;
    CHECK_OK(api().copy(other, &params));
    const uint64_t start = device.records().back().work.start_cycle;
    CHECK_OK(api().stream_destroy(other));
    return std::pair(start, end);
  };
  const auto [free_start, free_end] = start_behind(0);
  CHECK(free_start < free_end);
  const auto [start, end] = start_behind(1);
  CHECK_EQ(start, end);
  // A caller of an earlier version does not know the field, whatever lies behind its struct.
  atalla_copy_params old = copy_params(ATALLA_COPY_DEVICE_TO_HOST, address(host.data()), at, 4096);
  old.struct_size = offsetof(atalla_copy_params, waits);
  old.waits = 1;
  CHECK_OK(api().copy(device.stream, &old));
  const uint64_t before = device.records().back().work.start_cycle;
  atalla_stream other = nullptr;
  CHECK_OK(api().stream_create(device.handle, 0, &other));
  old.struct_size = sizeof old;
  CHECK_OK(api().copy(other, &old));
  CHECK_EQ(device.records().back().work.start_cycle, before);
  CHECK_OK(api().stream_destroy(other));
}

void test_link() {
  const OpenDevice device;
  const uint64_t kOverhead = 64, kLatency = 800, kWidth = 4;  // chip.toml
  const auto charged = [&](int kind, uint64_t bytes, uint64_t messages) {
    CHECK_OK(api().counters_reset(device.handle));
    const atalla_copy_params params = copy_params(kind, 0, 0, bytes, messages);
    CHECK_OK(api().copy(device.stream, &params));
    return device.counters();
  };
  const atalla_counters sent = charged(ATALLA_COPY_LINK_SEND, 400, 3);
  CHECK_EQ(sent.cycles, kOverhead + 3 * (kLatency + 400 / kWidth));
  CHECK_EQ(sent.dram_bytes_read, 1200u);
  CHECK_EQ(sent.dram_bytes_written, 0u);
  CHECK_EQ(sent.host_bytes_from_device, 0u);
  const atalla_counters received = charged(ATALLA_COPY_LINK_RECEIVE, 400, 3);
  CHECK_EQ(received.cycles, sent.cycles);
  CHECK_EQ(received.dram_bytes_read, 0u);
  CHECK_EQ(received.dram_bytes_written, 1200u);
  const atalla_counters both = charged(ATALLA_COPY_LINK_EXCHANGE, uint64_t{1} << 20, 1);
  CHECK_EQ(both.dram_bytes_read, both.dram_bytes_written);
  CHECK_EQ(both.sdma_cycles + kOverhead, both.cycles);  // the bus is slower than the link
  const atalla_counters barrier = charged(ATALLA_COPY_LINK_EXCHANGE, 0, 2);
  CHECK_EQ(barrier.cycles, kOverhead + 2 * kLatency);
}

}  // namespace

int main() {
  test_round_trip();
  test_fresh_pages();
  test_two_dimensions();
  test_overlap();
  test_peers();
  test_refused();
  test_charges();
  test_waits();
  test_link();
  return check_report();
}
