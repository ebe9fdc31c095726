// SPDX-License-Identifier: BSD-3-Clause
//
// What the functions of the C ABI share: argument checks and the border that no exception crosses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <shared_mutex>

#include "sim/abi/error.h"
#include "sim/device/registry.h"

namespace atalla::sim {

template <class Handle>
uint64_t number(Handle handle) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(handle));
}

template <class Handle>
Handle to_handle(uint64_t number) {
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(number));
}

inline atalla_status bad_handle(const char* kind, uint64_t handle) {
  return set_error(ATALLA_ERR_HANDLE, "the %s handle %#llx is null, closed or not a %s's", kind,
                   static_cast<unsigned long long>(handle), kind);
}

inline atalla_status null_argument(const char* name) {
  return set_error(ATALLA_ERR_ARGUMENT, "%s is a null pointer", name);
}

// Runs `body` and turns what it throws into a status.
template <class F>
atalla_status guarded(F&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return set_error(ATALLA_ERR_SYSTEM, "the host is out of memory");
  } catch (const std::exception& error) {
    return set_error(ATALLA_ERR_INTERNAL, "%s", error.what());
  } catch (...) {
    return set_error(ATALLA_ERR_INTERNAL, "an unknown exception");
  }
}

// body(Device&) while the device cannot be closed.
template <class F>
atalla_status with_device(atalla_device handle, F&& body) noexcept {
  return guarded([&]() -> atalla_status {
    const std::shared_lock lock(registry.mutex);
    const DeviceSlot* slot = registry.devices.find(number(handle));
    if (slot == nullptr) return bad_handle("device", number(handle));
    return body(*slot->device);
  });
}

// *out = body(Device&), whose argument is named `name`.
template <class T, class F>
atalla_status ask_device(atalla_device handle, T* out, const char* name, F&& body) noexcept {
  return with_device(handle, [&](Device& d) -> atalla_status {
    if (out == nullptr) return null_argument(name);
    *out = body(d);
    return ATALLA_OK;
  });
}

// body(Stream&) of a handle that is a stream's; the stream's functions check it again under their lock.
template <class F>
atalla_status with_stream(atalla_stream handle, F&& body) {
  Stream* stream = registry.streams.find(number(handle));
  if (stream == nullptr) [[unlikely]]
    return bad_handle("stream", number(handle));
  return body(*stream);
}

// Reads a struct that a caller filled: as many bytes as both sides know, the rest zero.
template <class T>
atalla_status read_struct(const T* given, const char* name, T* value) {
  if (given == nullptr) return null_argument(name);
  const uint32_t size = given->struct_size;
  if (size < sizeof(uint32_t)) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: struct_size is %u; expected sizeof the struct (%zu)", name, size,
                     sizeof(T));
  }
  if (size >= sizeof(T)) [[likely]] {
    *value = *given;
    return ATALLA_OK;
  }
  *value = {};
  memcpy(value, given, size);
  return ATALLA_OK;
}

// Writes as many bytes of `value` as the caller's struct_size leaves room for; struct_size itself stays.
template <class T>
atalla_status write_struct(T value, const char* name, T* given) {
  if (given == nullptr) return null_argument(name);
  const uint32_t size = given->struct_size;
  if (size < sizeof(uint32_t)) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: struct_size is %u; expected sizeof the struct (%zu)", name, size,
                     sizeof(T));
  }
  value.struct_size = size;
  memcpy(given, &value, std::min<size_t>(size, sizeof(T)));
  return ATALLA_OK;
}

// The functions of the table, by file.
namespace api {

atalla_status device_count(int32_t* count);
atalla_status device_open(const atalla_device_params* params, atalla_device* device);
atalla_status device_close(atalla_device device);
atalla_status device_properties(atalla_device device, atalla_device_properties* properties);
atalla_status device_memory_fd(atalla_device device, int* fd);
atalla_status device_host_view(atalla_device device, atalla_addr addr, uint64_t bytes, void** host);
atalla_status mem_alloc(atalla_device device, uint64_t bytes, uint64_t align, atalla_addr* addr);
atalla_status mem_free(atalla_device device, atalla_addr addr);
atalla_status mem_info(atalla_device device, uint64_t* free_bytes, uint64_t* total_bytes);
atalla_status mem_import(atalla_device device, int fd, uint64_t bytes, atalla_addr* addr);
atalla_status mem_release(atalla_device device, atalla_addr addr);
atalla_status counters_read(atalla_device device, atalla_counters* counters);
atalla_status counters_reset(atalla_device device);
atalla_status launch_records(atalla_device device, uint64_t from, atalla_launch_record* records, size_t* count);
atalla_status work_records(atalla_device device, uint64_t from, atalla_work_record* records, size_t record_bytes,
                           size_t* count);
atalla_status scpad_alloc(atalla_device device, uint64_t bytes, uint64_t align, uint32_t* sid, uint32_t* addr);
atalla_status scpad_free(atalla_device device, uint32_t sid, uint32_t addr);
atalla_status chip_config(atalla_device device, const char** toml);

atalla_status stream_create(atalla_device device, int32_t priority, atalla_stream* stream);
atalla_status stream_destroy(atalla_stream stream);
atalla_status stream_default(atalla_device device, atalla_stream* stream);
atalla_status stream_query(atalla_stream stream);
atalla_status stream_synchronize(atalla_stream stream);
atalla_status stream_wait_event(atalla_stream stream, atalla_event event);
atalla_status event_create(atalla_device device, atalla_event* event);
atalla_status event_destroy(atalla_event event);
atalla_status event_record(atalla_event event, atalla_stream stream);
atalla_status event_query(atalla_event event);
atalla_status event_synchronize(atalla_event event);
atalla_status event_cycles(atalla_event event, uint64_t* cycles);
atalla_status device_synchronize(atalla_device device);
atalla_status stream_meet(atalla_stream stream, atalla_meeting* meeting);
atalla_status meeting_arrival(atalla_meeting meeting, uint64_t* cycles);
atalla_status meeting_tell(atalla_meeting meeting, uint64_t cycle);

atalla_status copy(atalla_stream stream, const atalla_copy_params* params);
atalla_status kernel_count(uint32_t* count);
atalla_status kernel_lookup(const char* name, atalla_kernel* kernel);
atalla_status kernel_info(atalla_kernel kernel, atalla_kernel_info* info);
atalla_status launch(atalla_stream stream, const atalla_launch_desc* desc, size_t desc_bytes);
atalla_status charge_launch(atalla_stream stream, const atalla_launch_desc* desc, size_t desc_bytes);
atalla_status charge_copy(atalla_stream stream, const atalla_copy_params* params);
atalla_status execute_launch(atalla_stream stream, const atalla_launch_desc* desc, size_t desc_bytes);
atalla_status execute_copy(atalla_stream stream, const atalla_copy_params* params);
atalla_status launch_estimate(atalla_device device, const atalla_launch_desc* desc, size_t desc_bytes,
                              atalla_launch_record* record);

atalla_status charge_create(atalla_device device, const atalla_launch_charge* given, uint32_t* charge);
atalla_status charge_provider_set(atalla_charge_provider provider, void* context);
atalla_status charges_waiting(uint64_t* bytes);

atalla_status set_threads(uint32_t threads);
atalla_status get_threads(uint32_t* threads);

}  // namespace api

}  // namespace atalla::sim
