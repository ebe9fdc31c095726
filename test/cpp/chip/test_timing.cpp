// SPDX-License-Identifier: BSD-3-Clause
//
// Cycles of copies, and the same cycles whatever the machine is doing.
#include <atomic>
#include <thread>

#include "chip/support.h"

using namespace chip_test;

namespace {

uint64_t copy_cycles(const OpenDevice& device, atalla_addr addr, uint64_t row_bytes, uint64_t rows = 1,
                     uint64_t pitch = 0) {
  std::vector<char> host(row_bytes * rows);
  const uint64_t before = device.clock();
  CHECK_OK(copy(device.stream, ATALLA_COPY_HOST_TO_DEVICE, addr, address(host.data()), row_bytes, rows, pitch));
  return device.clock() - before;
}

// SDMA: 8 + r * ceil(2c / 8) * 2 a tile, and 64 cycles to get going.
void test_copies() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(1 << 20);
  CHECK_EQ(copy_cycles(device, addr, 2048), 64u + 520u);  // one full tile
  CHECK_EQ(copy_cycles(device, addr, 4096), 64u + 2 * 520u);
  CHECK_EQ(copy_cycles(device, addr, 1), 64u + 8 + 2);
  CHECK_EQ(copy_cycles(device, addr, 9), 64u + 8 + 2 * 2);
  CHECK_EQ(copy_cycles(device, addr, 2049), 64u + 2 * 8 + 257 * 2);
  CHECK_EQ(copy_cycles(device, addr, 4, 10, 64), 64u + 8 + 10 * 2);  // a bus beat a row, however short
  CHECK_EQ(copy_cycles(device, addr, 0), 0u);
  const atalla_counters counters = device.counters();
  CHECK_EQ(counters.copies, 6u);
  CHECK_EQ(counters.cycles, counters.sdma_cycles + 6 * 64);
  CHECK_EQ(counters.host_bytes_to_device, 2048u + 4096 + 1 + 9 + 2049 + 40);
  CHECK_EQ(counters.dram_bytes_written, counters.host_bytes_to_device);
  CHECK_EQ(counters.dram_bytes_read, 0u);
  CHECK_EQ(counters.launches, 0u);
}

// The three memories that the chip's literature names.
void test_profiles() {
  const std::string text = builtin_config();
  const ConfigFile ideal(replaced(replaced(text, "value = 2.0", "value = 1"), "setup_cycles = { value = 8",
                                  "setup_cycles = { value = 50"));
  const ConfigFile measured(replaced(text, "value = 2.0", "value = 9.1"));
  {
    const OpenDevice device({.config = ideal.path()});
    CHECK_EQ(copy_cycles(device, device.alloc(4096), 2048), 64u + 50 + 256);
    const char* loaded = nullptr;
    CHECK_OK(api().chip_config(device.handle, &loaded));
    CHECK(std::string(loaded).find("setup_cycles = { value = 50") != std::string::npos);
  }
  const OpenDevice device({.config = measured.path()});
  CHECK_EQ(copy_cycles(device, device.alloc(4096), 2048), 64u + 8 + 2330);  // 256 * 9.1 = 2329.6
}

std::vector<uint64_t> run_program() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(1 << 22);
  std::vector<uint64_t> cycles;
  for (const int64_t n : {7, 4096, 1 << 20, 33, 250000}) {
    CHECK_OK(launch(device.stream, fill(tensor(addr, {n}), 1.0f)));
    copy_cycles(device, addr, static_cast<uint64_t>(n));
    cycles.push_back(device.clock());
  }
  cycles.push_back(device.counters().cycles);
  return cycles;
}

void test_determinism() {
  const std::vector<uint64_t> reference = run_program();
  std::atomic<bool> stop{false};
  std::vector<std::thread> load;
  for (int t = 0; t < 4; ++t) {
    load.emplace_back([&] {
      volatile uint64_t x = 1;
      while (!stop) x = x * 6364136223846793005u + 1;
    });
  }
  uint32_t threads = 0;
  CHECK_OK(api().get_threads(&threads));
  for (uint32_t run = 0; run < 10; ++run) {
    CHECK_OK(api().set_threads(1 + run % 4));
    CHECK(run_program() == reference);
  }
  CHECK_OK(api().set_threads(threads));
  stop = true;
  for (std::thread& thread : load) thread.join();
}

}  // namespace

int main() {
  test_copies();
  test_profiles();
  test_determinism();
  return check_report();
}
