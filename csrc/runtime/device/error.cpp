// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/device/error.h"

#include "runtime/device/api.h"

namespace atalla::runtime {

const char* status_name(atalla_status status) noexcept {
  switch (status) {
    case ATALLA_OK:
      return "ATALLA_OK";
    case ATALLA_NOT_READY:
      return "ATALLA_NOT_READY";
    case ATALLA_ERR_SYSTEM:
      return "ATALLA_ERR_SYSTEM";
    case ATALLA_ERR_VERSION:
      return "ATALLA_ERR_VERSION";
    case ATALLA_ERR_CONFIG:
      return "ATALLA_ERR_CONFIG";
    case ATALLA_ERR_INTERNAL:
      return "ATALLA_ERR_INTERNAL";
    case ATALLA_ERR_ARGUMENT:
      return "ATALLA_ERR_ARGUMENT";
    case ATALLA_ERR_HANDLE:
      return "ATALLA_ERR_HANDLE";
    case ATALLA_ERR_UNKNOWN_KERNEL:
      return "ATALLA_ERR_UNKNOWN_KERNEL";
    case ATALLA_ERR_UNSUPPORTED:
      return "ATALLA_ERR_UNSUPPORTED";
    case ATALLA_ERR_FORMAT:
      return "ATALLA_ERR_FORMAT";
    case ATALLA_ERR_OUT_OF_MEMORY:
      return "ATALLA_ERR_OUT_OF_MEMORY";
    case ATALLA_ERR_SCRATCHPAD:
      return "ATALLA_ERR_SCRATCHPAD";
    case ATALLA_ERR_LIMIT:
      return "ATALLA_ERR_LIMIT";
    case ATALLA_ERR_FAULT_ADDRESS:
      return "ATALLA_ERR_FAULT_ADDRESS";
    case ATALLA_ERR_FAULT_INDEX:
      return "ATALLA_ERR_FAULT_INDEX";
    case ATALLA_ERR_FAULT_KERNEL:
      return "ATALLA_ERR_FAULT_KERNEL";
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
