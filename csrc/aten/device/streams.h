// SPDX-License-Identifier: BSD-3-Clause
//
// Devices and streams of PyTorch and of the driver.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "aten/device/error.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

inline c10::Device torch_device(int ordinal) {
  return c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(ordinal));
}

inline c10::Stream torch_stream(const runtime::Stream& stream) {
  return c10::Stream(c10::Stream::UNSAFE, torch_device(stream.device().ordinal()), stream.id());
}

inline runtime::Stream& driver_stream(const c10::Stream& stream) {
  return driver_call(
      [&]() -> runtime::Stream& { return runtime::Device::get(stream.device_index()).stream(stream.id()); });
}

// Later work of `then` waits for the work queued on `first` by now. Also across devices.
inline void order_streams(runtime::Stream& first, runtime::Stream& then) {
  if (&first == &then) return;
  runtime::Event event(first.device());
  event.record(first);
  event.block(then);
}

}  // namespace atalla::aten
