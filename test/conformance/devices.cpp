// SPDX-License-Identifier: BSD-3-Clause
//
// The table, devices, and handles that are null, closed, invented, or of another device.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>

#include "conformance.h"

namespace conformance {

void check_table() {
  expect(api->abi_minor == 0 || api->struct_size >= sizeof(atalla_api), "the table has all functions of its version",
         "struct_size is " + std::to_string(api->struct_size) + ", version 1.1 needs " +
             std::to_string(sizeof(atalla_api)));
  const auto* functions = reinterpret_cast<void* const*>(&api->last_error);
  const size_t bytes = std::min<size_t>(api->struct_size, sizeof(atalla_api)) - offsetof(atalla_api, last_error);
  size_t missing = 0;
  for (size_t i = 0; i < bytes / sizeof(void*); ++i) missing += functions[i] == nullptr;
  expect(missing == 0, "no function of the table is null", std::to_string(missing) + " are");
  std::set<std::string> names;
  const atalla_status all[] = {ATALLA_OK,
                               ATALLA_NOT_READY,
                               ATALLA_ERR_SYSTEM,
                               ATALLA_ERR_VERSION,
                               ATALLA_ERR_CONFIG,
                               ATALLA_ERR_INTERNAL,
                               ATALLA_ERR_ARGUMENT,
                               ATALLA_ERR_HANDLE,
                               ATALLA_ERR_UNKNOWN_KERNEL,
                               ATALLA_ERR_UNSUPPORTED,
                               ATALLA_ERR_FORMAT,
                               ATALLA_ERR_OUT_OF_MEMORY,
                               ATALLA_ERR_SCRATCHPAD,
                               ATALLA_ERR_LIMIT,
                               ATALLA_ERR_FAULT_ADDRESS,
                               ATALLA_ERR_FAULT_INDEX,
                               ATALLA_ERR_FAULT_KERNEL};
  for (const atalla_status status : all) {
    const char* name = api->status_name(status);
    if (name != nullptr) names.insert(name);
  }
  expect(names.size() == std::size(all), "status_name gives each status a name of its own");
  expect(std::strcmp(api->status_name(ATALLA_ERR_HANDLE), "ATALLA_ERR_HANDLE") == 0,
         "status_name gives the names of atalla.h", api->status_name(ATALLA_ERR_HANDLE));
  expect(api->status_name(-12345) != nullptr, "status_name of an unknown status is a text");
  expect(api->last_error() != nullptr, "last_error is a text before any error");
}

namespace {

atalla_status open(int32_t ordinal, uint32_t struct_size, atalla_device* device) {
  atalla_device_params params{};
  params.struct_size = struct_size;
  params.ordinal = ordinal;
  return api->device_open(&params, device);
}

void check_properties(const Session& session) {
  const atalla_device_properties& p = session.properties;
  expect(p.struct_size == sizeof p, "device_properties leaves struct_size");
  expect(p.ordinal == 0, "device_properties: the ordinal", std::to_string(p.ordinal));
  expect(p.name[0] != '\0' && std::memchr(p.name, '\0', sizeof p.name) != nullptr,
         "device_properties: a terminated name");
  expect(p.dram_bytes > 0 && p.dram_base > 0, "device_properties: DRAM has a base and bytes");
  expect(p.dram_base <= UINT64_MAX - p.dram_bytes, "device_properties: DRAM ends in the address space");
  const uint32_t align = p.dram_alignment;
  expect(align >= 16 && (align & (align - 1)) == 0, "device_properties: the alignment is a power of two, at least 16",
         std::to_string(align));
  expect(std::isfinite(p.clock_hz) && p.clock_hz > 0, "device_properties: the clock's rate is positive");
  // An older caller's struct: nothing may be written behind it.
  unsigned char bytes[sizeof p];
  std::memset(bytes, 0xA5, sizeof bytes);
  const uint32_t size = offsetof(atalla_device_properties, dram_alignment);
  std::memcpy(bytes, &size, sizeof size);
  expect_status(api->device_properties(session.device, reinterpret_cast<atalla_device_properties*>(bytes)), ATALLA_OK,
                "device_properties of a shorter struct");
  bool kept = true;
  for (size_t i = size; i < sizeof bytes; ++i) kept = kept && bytes[i] == 0xA5;
  expect(kept, "device_properties writes no more than struct_size bytes");
  expect(std::memcmp(bytes + offsetof(atalla_device_properties, dram_base), &p.dram_base, sizeof p.dram_base) == 0,
         "device_properties fills the fields of a shorter struct");
}

template <class Handle>
Handle invented(uint64_t number) {
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(number));
}

void check_bad_device(atalla_device device, const std::string& kind) {
  atalla_addr addr = 77;
  uint64_t free_bytes = 77, total = 77;
  atalla_stream stream = nullptr;
  atalla_event event = nullptr;
  expect_refusal(api->mem_alloc(device, 64, 0, &addr), ATALLA_ERR_HANDLE, "mem_alloc of " + kind);
  expect(addr == 77, "mem_alloc of " + kind + " leaves its output");
  expect_refusal(api->mem_info(device, &free_bytes, &total), ATALLA_ERR_HANDLE, "mem_info of " + kind);
  expect_refusal(api->stream_create(device, 0, &stream), ATALLA_ERR_HANDLE, "stream_create of " + kind);
  expect_refusal(api->event_create(device, &event), ATALLA_ERR_HANDLE, "event_create of " + kind);
  expect_refusal(api->device_synchronize(device), ATALLA_ERR_HANDLE, "device_synchronize of " + kind);
  expect_refusal(api->device_close(device), ATALLA_ERR_HANDLE, "device_close of " + kind);
}

void check_bad_stream(atalla_stream stream, const std::string& kind) {
  char byte = 0;
  const atalla_copy_params params = copy_params(ATALLA_COPY_HOST_TO_DEVICE, 64, host(&byte), 1);
  expect_refusal(api->stream_query(stream), ATALLA_ERR_HANDLE, "stream_query of " + kind);
  expect_refusal(api->stream_synchronize(stream), ATALLA_ERR_HANDLE, "stream_synchronize of " + kind);
  expect_refusal(api->copy(stream, &params), ATALLA_ERR_HANDLE, "copy on " + kind);
  const atalla_launch_desc desc = description(0, ATALLA_F32);
  expect_refusal(launch(stream, desc), ATALLA_ERR_HANDLE, "launch on " + kind);
  expect_refusal(api->stream_destroy(stream), ATALLA_ERR_HANDLE, "stream_destroy of " + kind);
}

void check_bad_event(atalla_event event, atalla_stream stream, const std::string& kind) {
  uint64_t cycles = 77;
  expect_refusal(api->event_query(event), ATALLA_ERR_HANDLE, "event_query of " + kind);
  expect_refusal(api->event_synchronize(event), ATALLA_ERR_HANDLE, "event_synchronize of " + kind);
  expect_refusal(api->event_record(event, stream), ATALLA_ERR_HANDLE, "event_record of " + kind);
  expect_refusal(api->stream_wait_event(stream, event), ATALLA_ERR_HANDLE, "stream_wait_event for " + kind);
  expect_refusal(api->event_cycles(event, &cycles), ATALLA_ERR_HANDLE, "event_cycles of " + kind);
  expect(cycles == 77, "event_cycles of " + kind + " leaves its output");
  expect_refusal(api->event_destroy(event), ATALLA_ERR_HANDLE, "event_destroy of " + kind);
}

void check_two_devices() {
  const Session first(0), second(1);
  const auto &a = first.properties, &b = second.properties;
  expect(b.ordinal == 1, "device 1 has ordinal 1", std::to_string(b.ordinal));
  expect(a.dram_base + a.dram_bytes <= b.dram_base || b.dram_base + b.dram_bytes <= a.dram_base,
         "the addresses of two devices do not overlap");
  atalla_event event = nullptr;
  expect_status(api->event_create(first.device, &event), ATALLA_OK, "event_create on device 0");
  expect_refusal(api->event_record(event, second.stream), ATALLA_ERR_HANDLE,
                 "event_record on a stream of another device");
  const atalla_addr addr = first.alloc(64);
  expect_refusal(api->mem_free(second.device, addr), ATALLA_ERR_ARGUMENT, "mem_free of another device's block");
}

}  // namespace

void check_devices() {
  int32_t count = -1;
  expect_status(api->device_count(&count), ATALLA_OK, "device_count");
  expect(count >= 1, "device_count is at least 1", std::to_string(count));
  atalla_device device = nullptr;
  expect_refusal(open(-1, sizeof(atalla_device_params), &device), ATALLA_ERR_ARGUMENT, "device_open of ordinal -1");
  expect_refusal(open(count, sizeof(atalla_device_params), &device), ATALLA_ERR_ARGUMENT,
                 "device_open of the ordinal after the last");
  expect_refusal(open(0, 0, &device), ATALLA_ERR_ARGUMENT, "device_open with struct_size 0");
  expect_refusal(api->device_open(nullptr, &device), ATALLA_ERR_ARGUMENT, "device_open without parameters");
  expect(device == nullptr, "a failing device_open leaves its output");

  atalla_device closed_device = nullptr;
  atalla_stream closed_stream = nullptr, destroyed_stream = nullptr;
  atalla_event closed_event = nullptr, destroyed_event = nullptr;
  {
    const Session session;
    check_properties(session);
    atalla_device again = nullptr;
    expect_refusal(open(0, sizeof(atalla_device_params), &again), ATALLA_ERR_ARGUMENT, "device_open of an open device");
    expect(again == nullptr, "device_open of an open device leaves its output");
    closed_device = session.device;
    closed_stream = session.new_stream();
    destroyed_stream = session.new_stream();
    expect(closed_stream != destroyed_stream, "stream_create gives a new stream");
    expect_status(api->event_create(session.device, &closed_event), ATALLA_OK, "event_create");
    expect_status(api->event_create(session.device, &destroyed_event), ATALLA_OK, "event_create of a second event");
    expect_status(api->stream_destroy(destroyed_stream), ATALLA_OK, "stream_destroy");
    expect_status(api->event_destroy(destroyed_event), ATALLA_OK, "event_destroy");
    check_bad_device(nullptr, "a null device");
    check_bad_device(invented<atalla_device>(0xABCDEF0123456788), "an invented device");
    check_bad_device(reinterpret_cast<atalla_device>(closed_stream), "a stream in place of a device");
    check_bad_stream(destroyed_stream, "a destroyed stream");
    check_bad_stream(nullptr, "a null stream");
    check_bad_stream(invented<atalla_stream>(0xABCDEF0123456788), "an invented stream");
    check_bad_event(destroyed_event, session.stream, "a destroyed event");
    check_bad_event(nullptr, session.stream, "a null event");
    check_bad_event(invented<atalla_event>(0xABCDEF0123456788), session.stream, "an invented event");
  }
  check_bad_device(closed_device, "a closed device");
  check_bad_stream(closed_stream, "a stream of a closed device");
  {
    const Session again;  // the handles of the old session stay closed
    check_bad_stream(closed_stream, "a stream of the device before it was opened again");
    check_bad_event(closed_event, again.stream, "an event of the device before it was opened again");
  }
  if (count >= 2) check_two_devices();
  else skip("two devices", "the library has one");
}

}  // namespace conformance
