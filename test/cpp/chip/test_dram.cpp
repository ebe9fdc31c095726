// SPDX-License-Identifier: BSD-3-Clause
//
// DRAM: the two views, the allocator, the scratchpads' allocator.
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "chip/support.h"

using namespace chip_test;

namespace {

void test_views() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(4096);
  device.view<uint32_t>(addr)[0] = 0xA7A11A;
  // The file behind both views holds the same bytes.
  int fd = -1;
  CHECK_OK(api().device_memory_fd(device.handle, &fd));
  struct stat info{};
  CHECK_EQ(fstat(fd, &info), 0);
  CHECK_EQ(info.st_size, 64 << 20);
  CHECK(info.st_blocks * 512 < (8 << 20));  // reserved, not committed
  const atalla_device_properties properties = device.properties();
  uint32_t value = 0;
  CHECK_EQ(pread(fd, &value, sizeof value, static_cast<off_t>(addr - properties.dram_base)), 4);
  CHECK_EQ(value, 0xA7A11Au);

  void* host = nullptr;
  const uint64_t base = properties.dram_base, size = properties.dram_bytes;
  CHECK_OK(api().device_host_view(device.handle, base, size, &host));
  CHECK_OK(api().device_host_view(device.handle, base + size, 0, &host));
  CHECK_FAILS(api().device_host_view(device.handle, base, size + 1, &host), ATALLA_ERR_FAULT_ADDRESS,
              "outside the DRAM");
  CHECK_EQ(api().device_host_view(device.handle, base + size - 1, 2, &host), ATALLA_ERR_FAULT_ADDRESS);
  CHECK_EQ(api().device_host_view(device.handle, base - 1, 1, &host), ATALLA_ERR_FAULT_ADDRESS);
  CHECK_EQ(api().device_host_view(device.handle, base + 1, UINT64_MAX, &host), ATALLA_ERR_FAULT_ADDRESS);
  CHECK_EQ(api().device_host_view(device.handle, 0, 1, &host), ATALLA_ERR_FAULT_ADDRESS);
}

// Host code that reads or writes a device pointer dies at once.
void test_host_dereference() {
  const OpenDevice device;
  const atalla_addr addr = device.alloc(64);
  for (const bool write : {false, true}) {
    const int status = in_child([&] {
      std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would turn the signal into an exit
      auto* pointer = reinterpret_cast<volatile int*>(addr);
      if (write) {
        *pointer = 1;
      } else {
        (void)*pointer;
      }
    });
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  }
}

void test_allocator() {
  const OpenDevice device({.ordinal = 0, .dram_bytes = 1 << 20});
  uint64_t free_bytes = 0, total = 0;
  CHECK_OK(api().mem_info(device.handle, &free_bytes, &total));
  CHECK_EQ(total, 1u << 20);
  CHECK_EQ(free_bytes, total);

  const atalla_addr a = device.alloc(1), b = device.alloc(65), c = device.alloc(64);
  CHECK_EQ(b - a, 64u);
  CHECK_EQ(c - b, 128u);
  CHECK_OK(api().mem_free(device.handle, b));
  CHECK_EQ(device.alloc(128), b);  // first fit
  CHECK_OK(api().mem_free(device.handle, b));
  CHECK_OK(api().mem_free(device.handle, a));
  CHECK_EQ(device.alloc(192), a);  // merged with its neighbour
  CHECK_OK(api().mem_free(device.handle, a));
  CHECK_OK(api().mem_free(device.handle, c));
  CHECK_EQ(device.alloc(1 << 20), a);  // all of it
  atalla_addr none = 7;
  CHECK_FAILS(api().mem_alloc(device.handle, 1, 0, &none), ATALLA_ERR_OUT_OF_MEMORY, "0 of 1048576 bytes free");
  CHECK_FAILS(api().mem_free(device.handle, a + 64), ATALLA_ERR_ARGUMENT, "not the start");
  CHECK_OK(api().mem_free(device.handle, a));
  CHECK_FAILS(api().mem_free(device.handle, a), ATALLA_ERR_ARGUMENT, "freed twice?");
  CHECK_FAILS(api().mem_free(device.handle, 0), ATALLA_ERR_ARGUMENT, "mem_free of 0x0");
  CHECK_FAILS(api().mem_alloc(device.handle, 0, 0, &none), ATALLA_ERR_ARGUMENT, "0 bytes");
  CHECK_FAILS(api().mem_alloc(device.handle, 8, 48, &none), ATALLA_ERR_ARGUMENT, "alignment is 48");
  CHECK_EQ(api().mem_alloc(device.handle, UINT64_MAX, 0, &none), ATALLA_ERR_OUT_OF_MEMORY);
  CHECK_EQ(api().mem_alloc(device.handle, (1 << 20) + 1, 0, &none), ATALLA_ERR_OUT_OF_MEMORY);
  CHECK_EQ(none, 7u);
  device.alloc(64);
  CHECK_EQ(device.alloc(64, 65536) % 65536, 0u);
}

// Random allocations never overlap, and freeing all of them gives one block again.
void test_allocator_random() {
  const OpenDevice device({.ordinal = 0, .dram_bytes = 4 << 20});
  std::mt19937 random(1);
  struct Block {
    atalla_addr addr;
    uint64_t bytes;
  };
  std::vector<Block> blocks;
  bool disjoint = true, aligned = true;
  for (int i = 0; i < 4000; ++i) {
    if (!blocks.empty() && random() % 5 < 2) {
      const size_t at = random() % blocks.size();
      CHECK_OK(api().mem_free(device.handle, blocks[at].addr));
      blocks[at] = blocks.back();
      blocks.pop_back();
      continue;
    }
    const uint64_t bytes = 1 + random() % 20000, align = uint64_t{64} << random() % 5;
    atalla_addr addr = 0;
    if (api().mem_alloc(device.handle, bytes, align, &addr) != ATALLA_OK) continue;
    aligned &= addr % align == 0;
    for (const Block& other : blocks) disjoint &= addr + bytes <= other.addr || other.addr + other.bytes <= addr;
    blocks.push_back({addr, bytes});
  }
  CHECK(disjoint && aligned);
  for (const Block& block : blocks) CHECK_OK(api().mem_free(device.handle, block.addr));
  device.alloc(4 << 20);
}

// Large freed blocks cost the host nothing.
void test_discard() {
  const OpenDevice device;
  int fd = -1;
  CHECK_OK(api().device_memory_fd(device.handle, &fd));
  const uint64_t bytes = 16 << 20;
  const atalla_addr addr = device.alloc(bytes);
  std::memset(device.view<char>(addr, bytes), 1, bytes);
  struct stat before{}, after{};
  CHECK_EQ(fstat(fd, &before), 0);
  CHECK_OK(api().mem_free(device.handle, addr));
  CHECK_EQ(fstat(fd, &after), 0);
  CHECK(before.st_blocks * 512 >= static_cast<int64_t>(bytes));
  CHECK(after.st_blocks * 512 < static_cast<int64_t>(bytes / 4));
}

void test_scratchpads() {
  const OpenDevice device;
  uint32_t sid = 9, addr = 9;
  const auto alloc = [&](uint64_t bytes, uint64_t align) {
    return api().scpad_alloc(device.handle, bytes, align, &sid, &addr);
  };
  CHECK_OK(alloc(100, 0));
  CHECK_EQ(sid, 0u);
  CHECK_EQ(addr, 0u);
  CHECK_OK(alloc(64, 256));  // the emptier scratchpad
  CHECK_EQ(sid, 1u);
  CHECK_EQ(addr, 0u);
  CHECK_OK(alloc(64, 256));
  CHECK_EQ(sid, 1u);
  CHECK_EQ(addr, 256u);
  CHECK_OK(api().scpad_free(device.handle, 1, 256));
  CHECK_FAILS(api().scpad_free(device.handle, 1, 256), ATALLA_ERR_ARGUMENT, "freed twice?");
  CHECK_FAILS(api().scpad_free(device.handle, 0, 64), ATALLA_ERR_ARGUMENT, "not the start of a page");
  CHECK_FAILS(api().scpad_free(device.handle, 2, 0), ATALLA_ERR_ARGUMENT, "scratchpad 2");
  sid = addr = 9;
  CHECK_FAILS(alloc(0, 0), ATALLA_ERR_ARGUMENT, "0 bytes");
  CHECK_FAILS(alloc(64, 32), ATALLA_ERR_ARGUMENT, "alignment is 32");
  CHECK_FAILS(alloc(64, 96), ATALLA_ERR_ARGUMENT, "alignment is 96");
  CHECK_FAILS(alloc((1 << 20) + 1, 0), ATALLA_ERR_SCRATCHPAD, "no scratchpad has 1048577 bytes");
  CHECK_EQ(alloc(UINT64_MAX, 0), ATALLA_ERR_SCRATCHPAD);
  CHECK_EQ(alloc(64, uint64_t{1} << 63), ATALLA_ERR_SCRATCHPAD);
  CHECK_EQ(alloc(1 << 20, 0), ATALLA_ERR_SCRATCHPAD);  // both are in use
  CHECK_EQ(sid, 9u);
  CHECK_OK(api().scpad_free(device.handle, 0, 0));
  CHECK_OK(alloc(1 << 20, 0));
  CHECK_EQ(sid, 0u);
  CHECK_OK(alloc((1 << 20) - 64, 0));
  CHECK_EQ(sid, 1u);
  CHECK_EQ(addr, 64u);  // behind the page at 0
  CHECK_FAILS(alloc(64, 0), ATALLA_ERR_SCRATCHPAD, "1048512 bytes at 0x40 of scratchpad 1, held by the host");
}

}  // namespace

int main() {
  test_views();
  test_host_dereference();
  test_allocator();
  test_allocator_random();
  test_discard();
  test_scratchpads();
  return check_report();
}
