// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>
#include <string>

#include "runtime/c_api/export.h"
#include "sim/abi/atalla.h"

namespace atalla::runtime {

// Every failure of the driver. what() is the text followed by the status' name in brackets.
class ATALLA_RUNTIME_API Error : public std::runtime_error {
 public:
  Error(atalla_status status, const std::string& text);
  atalla_status status() const noexcept { return status_; }

 private:
  atalla_status status_;
};

// "ATALLA_ERR_OUT_OF_MEMORY"; needs no device library.
ATALLA_RUNTIME_API const char* status_name(atalla_status status) noexcept;

// Throws Error with the device library's text of the calling thread.
[[noreturn]] ATALLA_RUNTIME_API void throw_last_error(atalla_status status);

// For the status of a device call: anything but ATALLA_OK throws.
inline void check(atalla_status status) {
  if (status != ATALLA_OK) [[unlikely]]
    throw_last_error(status);
}

}  // namespace atalla::runtime
