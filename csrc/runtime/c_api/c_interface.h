// SPDX-License-Identifier: BSD-3-Clause
//
// What the C interfaces of the driver share: the calling thread's error text, and the wall that exceptions do not
// cross.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "runtime/device/device.h"
#include "runtime/device/error.h"

struct atalla_rt_device_s;

namespace atalla::runtime {

// Sets the calling thread's error text and returns the status.
ATALLA_RUNTIME_API atalla_status set_c_error(atalla_status status, const char* text) noexcept;
// The text that set_c_error left; "" if none.
ATALLA_RUNTIME_API const char* c_error() noexcept;

// The device behind a C handle, and back. Throws Error (ATALLA_ERR_HANDLE) for null or anything but a handle.
ATALLA_RUNTIME_API Device& device_of_handle(atalla_rt_device_s* handle);
ATALLA_RUNTIME_API atalla_rt_device_s* handle_of_device(Device& device) noexcept;

// Runs the body of a C function and turns an exception into a status and a text.
template <class Body>
atalla_status c_call(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return ATALLA_OK;
  } catch (const Error& error) {
    return set_c_error(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return set_c_error(ATALLA_ERR_SYSTEM, "the host is out of memory");
  } catch (const std::exception& error) {
    return set_c_error(ATALLA_ERR_INTERNAL, error.what());
  } catch (...) {
    return set_c_error(ATALLA_ERR_INTERNAL, "an unknown C++ exception");
  }
}

}  // namespace atalla::runtime
