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
#include <type_traits>

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

// The functions of atalla_api behind status_name, in its order. Each has the signature that it has there.
// clang-format off
#define ATALLA_FORALL_API(X)                                                                                        \
  X(device_count) X(device_open) X(device_close) X(device_properties) X(device_memory_fd) X(device_host_view)       \
  X(mem_alloc) X(mem_free) X(mem_info)                                                                              \
  X(stream_create) X(stream_destroy) X(stream_default) X(stream_query) X(stream_synchronize) X(stream_wait_event)   \
  X(event_create) X(event_destroy) X(event_record) X(event_query) X(event_synchronize) X(event_cycles)              \
  X(device_synchronize) X(copy) X(kernel_count) X(kernel_lookup) X(kernel_info) X(launch) X(launch_estimate)        \
  X(counters_read) X(counters_reset) X(launch_records) X(scpad_alloc) X(scpad_free) X(set_threads) X(get_threads)   \
  X(chip_config) X(charge_launch) X(charge_copy) X(execute_launch) X(execute_copy) X(work_records)                  \
  X(mem_import) X(mem_release) X(stream_meet) X(meeting_arrival) X(meeting_tell)                                    \
  X(charge_create) X(charge_provider_set) X(charges_waiting)
// clang-format on

namespace api {
#define ATALLA_DECLARE(name) std::remove_pointer_t<decltype(atalla_api::name)> name;
ATALLA_FORALL_API(ATALLA_DECLARE)
#undef ATALLA_DECLARE
}  // namespace api

}  // namespace atalla::sim
