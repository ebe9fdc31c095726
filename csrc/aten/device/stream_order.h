// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "runtime/device/runtime.h"

namespace atalla::aten {

// Later work of `then` waits for the work queued on `first` by now. Also across devices.
inline void order_streams(runtime::Stream& first, runtime::Stream& then) {
  if (&first == &then) return;
  runtime::Event event(first.device());
  event.record(first);
  event.block(then);
}

}  // namespace atalla::aten
