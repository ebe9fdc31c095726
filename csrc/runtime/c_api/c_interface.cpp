// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/c_api/c_interface.h"

#include <string>

#include "runtime/c_api/atalla_runtime.h"

namespace atalla::runtime {
namespace {

thread_local std::string error_text;

}  // namespace

atalla_status set_c_error(atalla_status status, const char* text) noexcept {
  try {
    error_text = text;
  } catch (...) {
    error_text.clear();
  }
  return status;
}

const char* c_error() noexcept { return error_text.c_str(); }

// A handle is the address of the device object; it is compared with those of the open devices, never followed blindly.
Device& device_of_handle(atalla_rt_device_s* handle) {
  if (handle != nullptr) {
    for (int ordinal = 0; ordinal < kMaxDevices; ++ordinal) {
      if (Device::is_open(ordinal) && handle_of_device(Device::get(ordinal)) == handle) return Device::get(ordinal);
    }
  }
  throw Error(ATALLA_ERR_HANDLE, handle == nullptr ? "a device handle is expected, not a null pointer"
                                                   : "not a device handle that atalla_rt_open gave");
}

atalla_rt_device_s* handle_of_device(Device& device) noexcept { return reinterpret_cast<atalla_rt_device_s*>(&device); }

}  // namespace atalla::runtime
