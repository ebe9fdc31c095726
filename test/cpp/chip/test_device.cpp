// SPDX-License-Identifier: BSD-3-Clause
//
// The table, devices, and what happens to handles that are none.
#include <thread>

#include "chip/support.h"

using namespace chip_test;

namespace {

void test_versions() {
  const atalla_api* table = nullptr;
  CHECK_EQ(atalla_get_api(ATALLA_ABI_MAJOR + 1, &table), ATALLA_ERR_VERSION);
  CHECK(table == nullptr);
  CHECK(std::string(api().last_error()).find("wants ABI version 2") != std::string::npos);
  CHECK_EQ(atalla_get_api(ATALLA_ABI_MAJOR, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().abi_major, ATALLA_ABI_MAJOR);
  CHECK(api().struct_size >= sizeof(atalla_api));
  CHECK_EQ(std::string(api().status_name(ATALLA_ERR_FAULT_INDEX)), "ATALLA_ERR_FAULT_INDEX");
  CHECK_EQ(std::string(api().status_name(-7)), "ATALLA_ERR_UNKNOWN");
  // No entry of the table is empty.
  const auto* words = reinterpret_cast<void* const*>(&api().last_error);
  const size_t count = (sizeof(atalla_api) - offsetof(atalla_api, last_error)) / sizeof(void*);
  for (size_t i = 0; i < count; ++i) CHECK(words[i] != nullptr);
}

atalla_status open(int32_t ordinal, atalla_device* device, uint64_t dram_bytes = 1 << 20, uint32_t size = 0) {
  atalla_device_params params{};
  params.struct_size = size != 0 ? size : sizeof params;
  params.ordinal = ordinal;
  params.dram_bytes = dram_bytes;
  return api().device_open(&params, device);
}

void test_open() {
  int32_t count = 0;
  unsetenv("ATALLA_DEVICE_COUNT");
  CHECK_OK(api().device_count(&count));
  CHECK_EQ(count, 2);
  setenv("ATALLA_DEVICE_COUNT", "3", 1);
  CHECK_OK(api().device_count(&count));
  CHECK_EQ(count, 3);
  setenv("ATALLA_DEVICE_COUNT", "three", 1);
  CHECK_FAILS(api().device_count(&count), ATALLA_ERR_CONFIG, "ATALLA_DEVICE_COUNT is \"three\"");
  CHECK_EQ(count, 3);
  unsetenv("ATALLA_DEVICE_COUNT");

  atalla_device device = nullptr;
  CHECK_FAILS(open(2, &device), ATALLA_ERR_ARGUMENT, "device ordinal 2; expected 0 to 1");
  CHECK_FAILS(open(-1, &device), ATALLA_ERR_ARGUMENT, "device ordinal -1");
  CHECK_FAILS(open(0, &device, UINT64_MAX), ATALLA_ERR_ARGUMENT, "DRAM capacity");
  CHECK_FAILS(open(0, &device, 1 << 20, 3), ATALLA_ERR_ARGUMENT, "struct_size is 3");
  CHECK_FAILS(api().device_open(nullptr, &device), ATALLA_ERR_ARGUMENT, "null pointer");
  CHECK(device == nullptr);
  CHECK_OK(open(0, &device));
  atalla_device again = nullptr;
  CHECK_FAILS(open(0, &again), ATALLA_ERR_ARGUMENT, "device 0 is open already");
  CHECK_OK(api().device_close(device));
  CHECK_OK(open(0, &again));
  CHECK(again != device);
  CHECK_OK(api().device_close(again));

  // A caller of an older minor version knows fewer fields: those it does not give have their defaults.
  setenv("ATALLA_DRAM_BYTES", "131072", 1);
  CHECK_OK(open(0, &device, 1 << 20, offsetof(atalla_device_params, dram_bytes)));
  uint64_t free_bytes = 0, total = 0;
  CHECK_OK(api().mem_info(device, &free_bytes, &total));
  CHECK_EQ(total, 131072u);
  CHECK_OK(api().device_close(device));
  setenv("ATALLA_DRAM_BYTES", "12 GB", 1);
  CHECK_FAILS(open(0, &device, 0), ATALLA_ERR_CONFIG, "ATALLA_DRAM_BYTES is \"12 GB\"");
  unsetenv("ATALLA_DRAM_BYTES");
}

void test_properties() {
  const OpenDevice device({.ordinal = 1, .dram_bytes = 0});
  atalla_device_properties properties{};
  CHECK_FAILS(api().device_properties(device.handle, &properties), ATALLA_ERR_ARGUMENT, "struct_size is 0");
  properties.struct_size = sizeof properties;
  CHECK_OK(api().device_properties(device.handle, &properties));
  CHECK_EQ(std::string(properties.name), "Atalla Ax01");
  CHECK_EQ(properties.ordinal, 1);
  CHECK_EQ(properties.dram_bytes, uint64_t{4} << 30);
  CHECK(properties.dram_base != 0);
  CHECK_EQ(properties.dram_alignment, 64u);
  CHECK_EQ(properties.scratchpads, 2u);
  CHECK_EQ(properties.scratchpad_bytes, uint64_t{1} << 20);
  CHECK_EQ(properties.vector_lanes, 32u);
  CHECK_EQ(properties.array_rows, 32u);
  CHECK_EQ(properties.clock_hz, 800e6);
  CHECK_EQ(properties.bus_bytes_per_cycle, 8.0);
  // An older caller's shorter struct is not overrun.
  atalla_device_properties shorter{};
  shorter.struct_size = offsetof(atalla_device_properties, dram_base);
  CHECK_OK(api().device_properties(device.handle, &shorter));
  CHECK_EQ(shorter.dram_bytes, uint64_t{4} << 30);
  CHECK_EQ(shorter.dram_base, 0u);
  CHECK_EQ(shorter.struct_size, offsetof(atalla_device_properties, dram_base));
}

// Every function with a handle that is null, invented, of another kind, or closed.
void test_handles() {
  atalla_device closed = nullptr;
  atalla_stream closed_stream = nullptr;
  atalla_event closed_event = nullptr;
  CHECK_OK(open(0, &closed));
  CHECK_OK(api().stream_create(closed, 0, &closed_stream));
  CHECK_OK(api().event_create(closed, &closed_event));
  CHECK_OK(api().device_close(closed));  // closes its streams and events too
  const OpenDevice live;                 // takes the same slots again

  for (const uintptr_t value : {uintptr_t{0}, uintptr_t{8}, UINTPTR_MAX, reinterpret_cast<uintptr_t>(&closed),
                                reinterpret_cast<uintptr_t>(closed), reinterpret_cast<uintptr_t>(closed_stream),
                                reinterpret_cast<uintptr_t>(closed_event), reinterpret_cast<uintptr_t>(live.stream)}) {
    const auto device = reinterpret_cast<atalla_device>(value);
    const auto event = reinterpret_cast<atalla_event>(value);
    atalla_device_properties properties{};
    properties.struct_size = sizeof properties;
    atalla_counters counters{};
    counters.struct_size = sizeof counters;
    atalla_launch_record record;
    int fd;
    void* host;
    atalla_addr addr;
    uint64_t bytes, more;
    uint32_t sid, page;
    size_t count = 1;
    const char* toml;
    atalla_stream stream;
    atalla_event made;
    const atalla_launch_desc desc{};
    CHECK_FAILS(api().device_close(device), ATALLA_ERR_HANDLE, "device handle");
    CHECK_EQ(api().device_properties(device, &properties), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().device_memory_fd(device, &fd), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().device_host_view(device, 0, 1, &host), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().mem_alloc(device, 1, 0, &addr), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().mem_free(device, 64), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().mem_info(device, &bytes, &more), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().stream_create(device, 0, &stream), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().stream_default(device, &stream), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().event_create(device, &made), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().device_synchronize(device), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().counters_read(device, &counters), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().counters_reset(device), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().launch_records(device, 0, &record, &count), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().launch_estimate(device, &desc, sizeof desc, &record), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().scpad_alloc(device, 64, 0, &sid, &page), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().scpad_free(device, 0, 0), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().chip_config(device, &toml), ATALLA_ERR_HANDLE);
    CHECK_FAILS(api().event_destroy(event), ATALLA_ERR_HANDLE, "event handle");
    CHECK_EQ(api().event_record(event, live.stream), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().event_query(event), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().event_synchronize(event), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().event_cycles(event, &bytes), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().stream_wait_event(live.stream, event), ATALLA_ERR_HANDLE);
    if (value == reinterpret_cast<uintptr_t>(live.stream)) continue;
    stream = reinterpret_cast<atalla_stream>(value);
    CHECK_FAILS(api().stream_destroy(stream), ATALLA_ERR_HANDLE, "stream handle");
    CHECK_EQ(api().stream_query(stream), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().stream_synchronize(stream), ATALLA_ERR_HANDLE);
    CHECK_EQ(api().launch(stream, &desc, sizeof desc), ATALLA_ERR_HANDLE);
    CHECK_EQ(copy(stream, ATALLA_COPY_DEVICE_TO_DEVICE, 0, 0, 0), ATALLA_ERR_HANDLE);
  }
}

void test_null_outputs() {
  const OpenDevice device;
  CHECK_EQ(api().device_count(nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().device_open(nullptr, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().device_properties(device.handle, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().device_memory_fd(device.handle, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().device_host_view(device.handle, 0, 0, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().mem_alloc(device.handle, 1, 0, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().mem_info(device.handle, nullptr, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().stream_create(device.handle, 0, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().stream_default(device.handle, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().event_create(device.handle, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().copy(device.stream, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().kernel_count(nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().kernel_lookup(nullptr, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().kernel_info(0, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().launch(device.stream, nullptr, 0), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().counters_read(device.handle, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().launch_records(device.handle, 0, nullptr, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().scpad_alloc(device.handle, 64, 0, nullptr, nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().get_threads(nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(api().chip_config(device.handle, nullptr), ATALLA_ERR_ARGUMENT);
}

void test_kernel_table() {
  uint32_t count = 0;
  CHECK_OK(api().kernel_count(&count));
  CHECK(count > 0);
  for (uint32_t id = 0; id < count; ++id) {
    const atalla_kernel_info info = info_of(id);
    CHECK(info.dtypes != 0 && info.version >= 1);
    CHECK_EQ(kernel(info.name), id);
  }
  atalla_kernel_info info{};
  info.struct_size = sizeof info;
  atalla_kernel id = 99;
  CHECK_FAILS(api().kernel_info(count, &info), ATALLA_ERR_UNKNOWN_KERNEL, "there is no kernel");
  CHECK_FAILS(api().kernel_lookup("no.such", &id), ATALLA_ERR_UNKNOWN_KERNEL, "\"no.such\"");
  CHECK_EQ(api().kernel_lookup("", &id), ATALLA_ERR_UNKNOWN_KERNEL);
  CHECK_EQ(id, 99u);
}

// An error belongs to the thread that made it.
void test_error_text() {
  atalla_kernel id = 0;
  api().kernel_lookup("of.this.thread", &id);
  std::thread([] {
    CHECK_EQ(std::string(api().last_error()), "");
    atalla_kernel other = 0;
    api().kernel_lookup("of.that.thread", &other);
  }).join();
  CHECK(std::string(api().last_error()).find("of.this.thread") != std::string::npos);
  const std::string long_name(5000, 'k');
  CHECK_EQ(api().kernel_lookup(long_name.c_str(), &id), ATALLA_ERR_UNKNOWN_KERNEL);
  CHECK(strlen(api().last_error()) < long_name.size());
}

}  // namespace

int main() {
  test_versions();
  test_open();
  test_properties();
  test_handles();
  test_null_outputs();
  test_kernel_table();
  test_error_text();
  return check_report();
}
