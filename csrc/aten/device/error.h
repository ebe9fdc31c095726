// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "runtime/device/error.h"

namespace atalla::aten {

// The driver's error as PyTorch's own type: torch.OutOfMemoryError, IndexError, NotImplementedError, ValueError or
// RuntimeError.
[[noreturn]] void throw_torch_error(const runtime::Error& error);

// Runs a call of the driver and translates its error.
template <class F>
auto driver_call(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const runtime::Error& error) {
    throw_torch_error(error);
  }
}

}  // namespace atalla::aten
