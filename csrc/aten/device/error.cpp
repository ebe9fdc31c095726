// SPDX-License-Identifier: BSD-3-Clause
#include "aten/device/error.h"

#include <c10/util/Exception.h>

#include "runtime/stream/async_fault.h"

namespace atalla::aten {

void throw_torch_error(const runtime::Error& error) {
  if (const auto* async = dynamic_cast<const runtime::AsyncError*>(&error)) std::rethrow_exception(async->cause());
  switch (error.status()) {
    case ATALLA_ERR_OUT_OF_MEMORY:
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    case ATALLA_ERR_FAULT_INDEX:
      TORCH_CHECK_INDEX(false, error.what());
    case ATALLA_ERR_UNSUPPORTED:
    case ATALLA_ERR_UNKNOWN_KERNEL:
      TORCH_CHECK_NOT_IMPLEMENTED(false, error.what());
    default:
      TORCH_CHECK(false, error.what());
  }
  C10_THROW_ERROR(Error, error.what());
}

}  // namespace atalla::aten
