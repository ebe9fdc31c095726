// SPDX-License-Identifier: BSD-3-Clause
//
// The C interface: each call's good and bad input. examples/c/hello.c is the same from a C program.
#include <array>

#include "driver/support.h"

namespace {

using driver_test::run_everywhere;

bool error_has(std::string_view part) {
  return std::string_view(atalla_rt_last_error()).find(part) != std::string_view::npos;
}

void test_devices(atalla_rt_device* device) {
  CHECK_EQ(std::string(atalla_rt_last_error()), "");
  int32_t count = 0;
  CHECK_EQ(atalla_rt_device_count(&count), ATALLA_OK);
  CHECK(count >= 1);
  CHECK_EQ(atalla_rt_device_count(nullptr), ATALLA_ERR_ARGUMENT);
  CHECK(error_has("count must not be a null pointer"));
  CHECK_EQ(atalla_rt_open(-1, nullptr, device), ATALLA_ERR_ARGUMENT);
  CHECK(error_has("device ordinal -1"));
  CHECK_EQ(atalla_rt_open(0, nullptr, nullptr), ATALLA_ERR_ARGUMENT);
  atalla_rt_params params{};
  CHECK_EQ(atalla_rt_open(0, &params, device), ATALLA_ERR_ARGUMENT);
  CHECK(error_has("params->struct_size is 0"));
  params.struct_size = sizeof params;
  CHECK_EQ(atalla_rt_open(0, &params, device), ATALLA_OK);
  atalla_rt_device again = nullptr;
  CHECK_EQ(atalla_rt_open(0, nullptr, &again), ATALLA_OK);
  CHECK(again == *device);
  CHECK_EQ(atalla_rt_synchronize(nullptr), ATALLA_ERR_HANDLE);
  CHECK_EQ(atalla_rt_synchronize(reinterpret_cast<atalla_rt_device>(&count)), ATALLA_ERR_HANDLE);
  CHECK(error_has("not a device handle"));
  atalla_device_properties properties{};
  CHECK_EQ(atalla_rt_properties(*device, &properties), ATALLA_ERR_ARGUMENT);
  properties.struct_size = sizeof properties;
  CHECK_EQ(atalla_rt_properties(*device, &properties), ATALLA_OK);
  CHECK(properties.dram_bytes > 0 && properties.struct_size == sizeof properties);
  properties = {};
  properties.struct_size = offsetof(atalla_device_properties, dram_bytes);  // an older, shorter struct
  CHECK_EQ(atalla_rt_properties(*device, &properties), ATALLA_OK);
  CHECK(properties.name[0] != '\0' && properties.dram_bytes == 0);
}

void test_memory(atalla_rt_device device) {
  atalla_addr addr = 1;
  CHECK_EQ(atalla_rt_alloc(device, 0, &addr), ATALLA_OK);
  CHECK_EQ(addr, 0u);
  CHECK_EQ(atalla_rt_free(device, 0), ATALLA_OK);
  CHECK_EQ(atalla_rt_alloc(device, 100, nullptr), ATALLA_ERR_ARGUMENT);
  addr = 7;
  CHECK_EQ(atalla_rt_alloc(device, UINT64_MAX, &addr), ATALLA_ERR_OUT_OF_MEMORY);
  CHECK_EQ(addr, 7u);  // a failing call leaves its outputs
  CHECK(error_has("out of memory. Tried to allocate"));
  CHECK_EQ(atalla_rt_alloc(device, 1000, &addr), ATALLA_OK);
  atalla_rt_memory memory{};
  memory.struct_size = sizeof memory;
  CHECK_EQ(atalla_rt_memory_info(device, &memory), ATALLA_OK);
  CHECK_EQ(memory.allocated, 1024u);
  CHECK_EQ(memory.cached, 2u << 20);
  CHECK(memory.device_free < memory.device_total);
  CHECK_EQ(atalla_rt_free(device, addr + 512), ATALLA_ERR_ARGUMENT);
  CHECK(error_has("is not an allocation of device 0"));
  CHECK_EQ(atalla_rt_free(device, addr), ATALLA_OK);
  CHECK_EQ(atalla_rt_free(device, addr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(atalla_rt_empty_cache(device), ATALLA_OK);
  CHECK_EQ(atalla_rt_memory_info(device, &memory), ATALLA_OK);
  CHECK_EQ(memory.cached, 0u);

  atalla_rt_params params{};
  params.struct_size = sizeof params;
  params.memory_limit = 1 << 20;
  CHECK_EQ(atalla_rt_open(0, &params, &device), ATALLA_OK);
  CHECK_EQ(atalla_rt_alloc(device, 2 << 20, &addr), ATALLA_ERR_OUT_OF_MEMORY);
  CHECK(error_has("may reserve 1.00 MiB"));
  params.memory_limit = 0;
  CHECK_EQ(atalla_rt_open(0, &params, &device), ATALLA_OK);
}

void test_work(atalla_rt_device device) {
  constexpr int64_t kCount = 6;
  const std::array<float, kCount> host = {1, 2, 3, 4, 5, 6};
  std::array<float, kCount> back{};
  atalla_addr in = 0, out = 0;
  CHECK_EQ(atalla_rt_alloc(device, sizeof host, &in), ATALLA_OK);
  CHECK_EQ(atalla_rt_alloc(device, sizeof host, &out), ATALLA_OK);
  CHECK_EQ(atalla_rt_reset_counters(device), ATALLA_OK);
  CHECK_EQ(atalla_rt_copy_to_device(device, in, host.data(), sizeof host), ATALLA_OK);
  CHECK_EQ(atalla_rt_copy_to_device(device, in, nullptr, 4), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(atalla_rt_copy_to_device(device, 0, nullptr, 0), ATALLA_OK);
  CHECK_EQ(atalla_rt_copy_on_device(device, out, in, sizeof host), ATALLA_OK);

  auto desc = driver_test::add_desc(reinterpret_cast<void*>(out), reinterpret_cast<void*>(in),
                                    reinterpret_cast<void*>(out), kCount);
  desc.kernel = 12345;  // the name counts
  CHECK_EQ(atalla_rt_launch(device, "pointwise.add", &desc), ATALLA_OK);
  CHECK_EQ(atalla_rt_kernel("pointwise.add", &desc.kernel), ATALLA_OK);
  CHECK_EQ(atalla_rt_launch(device, nullptr, &desc), ATALLA_OK);
  CHECK_EQ(atalla_rt_copy_from_device(device, back.data(), out, sizeof host), ATALLA_OK);
  for (int64_t i = 0; i < kCount; ++i) CHECK_EQ(back[i], 3 * host[i]);
  CHECK_EQ(atalla_rt_copy_from_device(device, nullptr, out, 4), ATALLA_ERR_ARGUMENT);

  CHECK_EQ(atalla_rt_launch(device, "no.such", &desc), ATALLA_ERR_UNKNOWN_KERNEL);
  CHECK(error_has("no.such"));
  CHECK_EQ(atalla_rt_launch(device, "fill", nullptr), ATALLA_ERR_ARGUMENT);
  desc.n_operands = 200;
  CHECK_EQ(atalla_rt_launch(device, "pointwise.add", &desc), ATALLA_ERR_ARGUMENT);
  CHECK(error_has("200"));
  CHECK_EQ(atalla_rt_kernel(nullptr, &desc.kernel), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(atalla_rt_kernel("fill", nullptr), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(atalla_rt_synchronize(device), ATALLA_OK);

  atalla_counters counters{};
  CHECK_EQ(atalla_rt_counters(device, &counters), ATALLA_ERR_ARGUMENT);
  counters.struct_size = sizeof counters;
  CHECK_EQ(atalla_rt_counters(device, &counters), ATALLA_OK);
  CHECK_EQ(counters.launches, 2u);
  CHECK_EQ(counters.copies, 3u);
  CHECK(counters.cycles > 0);
  CHECK_EQ(atalla_rt_free(device, in), ATALLA_OK);
  CHECK_EQ(atalla_rt_free(device, out), ATALLA_OK);
  CHECK_EQ(std::string(atalla_rt_status_name(ATALLA_ERR_HANDLE)), "ATALLA_ERR_HANDLE");
}

void test_operand() {
  const int64_t sizes[] = {2, 1, 3};
  const atalla_operand operand = atalla_rt_operand(4096, ATALLA_BF16, 3, sizes);
  CHECK(operand.addr == 4096 && operand.dtype == ATALLA_BF16 && operand.ndim == 3 && operand.immediate == 0);
  CHECK(operand.strides[0] == 3 && operand.strides[1] == 3 && operand.strides[2] == 1 && operand.sizes[2] == 3);
}

void test_all() {
  atalla_rt_device device = nullptr;
  test_devices(&device);
  test_memory(device);
  test_work(device);
  test_operand();
}

}  // namespace

int main(int argc, char**) { return run_everywhere(argc, test_all); }
