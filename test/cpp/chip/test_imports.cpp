// SPDX-License-Identifier: BSD-3-Clause
//
// DRAM of another device, and of another process, imported: who may reach it, and who may not any more.
#include <fcntl.h>

#include "chip/support.h"

using namespace chip_test;

namespace {

int memory_fd(const OpenDevice& device) {
  int fd = -1;
  CHECK_OK(api().device_memory_fd(device.handle, &fd));
  return fd;
}

atalla_addr base_of(const OpenDevice& device) { return device.properties().dram_base; }

void test_kernels_and_copies() {
  const OpenDevice owner, user({.ordinal = 1});
  const atalla_addr there = owner.alloc(4096);
  atalla_addr base = 0;
  CHECK_OK(api().mem_import(user.handle, memory_fd(owner), 0, &base));
  CHECK(base != 0 && base != base_of(owner));
  const atalla_addr here = base + (there - base_of(owner));

  CHECK_OK(launch(user.stream, fill(tensor(here, {1024}), 3.5f)));
  CHECK_EQ(owner.view<float>(there, 1024)[1023], 3.5f);
  CHECK_EQ(user.view<float>(here, 1024)[0], 3.5f);
  owner.view<float>(there)[0] = 7;
  float read[1024] = {};
  CHECK_OK(copy(user.stream, ATALLA_COPY_DEVICE_TO_HOST, address(read), here, sizeof read));
  CHECK_EQ(read[0], 7.0f);
  const atalla_addr own = user.alloc(4096);
  CHECK_OK(copy(user.stream, ATALLA_COPY_DEVICE_TO_DEVICE, own, here, 4096));
  CHECK_EQ(user.view<float>(own)[0], 7.0f);
  // Between devices, with the import as the far end.
  CHECK_OK(copy(owner.stream, ATALLA_COPY_DEVICE_TO_DEVICE, owner.alloc(64), here, 64));

  // An import is one device's, and ends where its DRAM ends.
  CHECK_FAILS(launch(owner.stream, fill(tensor(here, {4}), 0)), ATALLA_ERR_FAULT_ADDRESS,
              "leaves the DRAM of device 0");
  (void)api().stream_synchronize(owner.stream);
  const atalla_addr end = base + (uint64_t{64} << 20);
  CHECK_FAILS(launch(user.stream, fill(tensor(end - 8, {4}), 0)), ATALLA_ERR_FAULT_ADDRESS,
              "leaves the DRAM of device 1");
  (void)api().stream_synchronize(user.stream);
  CHECK_FAILS(launch(user.stream, fill(tensor(here + 2, {4}), 0)), ATALLA_ERR_FAULT_KERNEL, "misaligned");
  (void)api().stream_synchronize(user.stream);
  CHECK_FAILS(copy(user.stream, ATALLA_COPY_HOST_TO_DEVICE, own, here, 64), ATALLA_ERR_ARGUMENT, "is a device address");
  (void)api().stream_synchronize(user.stream);

  CHECK_FAILS(api().mem_release(owner.handle, base), ATALLA_ERR_ARGUMENT, "is not where an import");
  CHECK_FAILS(api().mem_free(user.handle, here), ATALLA_ERR_ARGUMENT, "");
  CHECK_OK(api().mem_release(user.handle, base));
  CHECK_FAILS(api().mem_release(user.handle, base), ATALLA_ERR_ARGUMENT, "is not where an import");
  CHECK_FAILS(launch(user.stream, fill(tensor(here, {4}), 0)), ATALLA_ERR_FAULT_ADDRESS, "leaves the DRAM of device 1");
}

void test_another_process() {
  const OpenDevice owner;
  const atalla_addr there = owner.alloc(4096);
  std::memset(owner.view<char>(there, 4096), 0, 4096);
  const uint64_t offset = there - base_of(owner);
  const int fd = memory_fd(owner);
  const int status = in_child([&] {
    const OpenDevice user({.ordinal = 1});
    atalla_addr base = 0;
    if (api().mem_import(user.handle, fd, 0, &base) != ATALLA_OK) _exit(1);
    if (launch(user.stream, fill(tensor(base + offset, {1024}), 2.0f)) != ATALLA_OK) _exit(2);
    _exit(0);  // without a release, as a process that is killed
  });
  CHECK_EQ(status, 0);
  CHECK_EQ(owner.view<float>(there, 1024)[1023], 2.0f);
}

void test_refused() {
  const OpenDevice device;
  atalla_addr base = 1;
  CHECK_FAILS(api().mem_import(device.handle, -1, 0, &base), ATALLA_ERR_SYSTEM, "descriptor -1");
  CHECK_FAILS(api().mem_import(device.handle, memory_fd(device), uint64_t{65} << 20, &base), ATALLA_ERR_ARGUMENT,
              "an import of 68157440 bytes of a file that has 67108864");
  const int nothing = open("/dev/null", O_RDWR);
  CHECK_FAILS(api().mem_import(device.handle, nothing, 0, &base), ATALLA_ERR_ARGUMENT, "of a file that has 0");
  close(nothing);
  CHECK_EQ(base, 1u);
  CHECK_FAILS(api().mem_import(device.handle, memory_fd(device), 0, nullptr), ATALLA_ERR_ARGUMENT, "addr is a null");
  CHECK_FAILS(api().mem_import(nullptr, memory_fd(device), 0, &base), ATALLA_ERR_HANDLE, "device handle");
  std::vector<atalla_addr> all;
  atalla_status status = ATALLA_OK;
  while (all.size() < 1000 && (status = api().mem_import(device.handle, memory_fd(device), 4096, &base)) == ATALLA_OK)
    all.push_back(base);
  CHECK_FAILS(status, ATALLA_ERR_LIMIT, "imports of other processes' DRAM are in use");
  CHECK_OK(api().mem_release(device.handle, all.front()));
  CHECK_OK(api().mem_import(device.handle, memory_fd(device), 4096, &base));
}

void test_closing_releases() {
  const OpenDevice owner;
  atalla_addr base = 0;
  {
    const OpenDevice user({.ordinal = 1});
    CHECK_OK(api().mem_import(user.handle, memory_fd(owner), 0, &base));
  }
  CHECK_FAILS(copy(owner.stream, ATALLA_COPY_DEVICE_TO_DEVICE, owner.alloc(64), base, 64), ATALLA_ERR_FAULT_ADDRESS,
              "outside the DRAM");
}

}  // namespace

int main() {
  test_another_process();  // before anything starts threads
  test_kernels_and_copies();
  test_refused();
  test_closing_releases();
  return check_report();
}
