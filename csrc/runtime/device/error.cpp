// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/device/error.h"

#include "runtime/device/api.h"

namespace atalla::runtime {

const char* status_name(atalla_status status) noexcept {
  switch (status) {
#include "status_names.inc"
    default:
      return "unknown status";
  }
}

Error::Error(atalla_status status, const std::string& text)
    : std::runtime_error(text + " [" + status_name(status) + "]"), status_(status) {}

void throw_last_error(atalla_status status) {
  const char* text = api().last_error();
  throw Error(status, text != nullptr && *text != '\0' ? text : "the device library gave no reason");
}

}  // namespace atalla::runtime
