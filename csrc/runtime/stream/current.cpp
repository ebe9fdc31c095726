// SPDX-License-Identifier: BSD-3-Clause
//
// What each thread has chosen: its current device, and its current stream on each.
#include <string>

#include "runtime/device/api.h"
#include "runtime/device/device.h"
#include "runtime/device/error.h"
#include "runtime/device/fork.h"

namespace atalla::runtime {
namespace {

struct ThreadChoice {
  int device = 0;
  Stream* streams[kMaxDevices] = {};  // null: the default stream
};
constinit thread_local ThreadChoice choice;

}  // namespace

int current_device() noexcept { return choice.device; }

void set_current_device(int ordinal) {
  const int count = device_count();
  if (ordinal < 0 || ordinal >= count || ordinal >= kMaxDevices) {
    if (count == 0) Device::get(ordinal);  // throws the reason why there are none
    throw Error(ATALLA_ERR_ARGUMENT, "invalid device ordinal " + std::to_string(ordinal) + ", expected 0 to " +
                                         std::to_string(count - 1) + ": there are " + std::to_string(count) +
                                         " atalla devices");
  }
  choice.device = ordinal;
}

Stream& current_stream(int ordinal) {
  if (ordinal >= 0 && ordinal < kMaxDevices) [[likely]] {
    if (Stream* stream = choice.streams[ordinal]) [[likely]]
      return *stream;
  }
  Stream& stream = Device::get(ordinal).default_stream();
  choice.streams[ordinal] = &stream;
  return stream;
}

void set_current_stream(Stream& stream) noexcept { choice.streams[stream.device().ordinal()] = &stream; }

void forget_current_streams() noexcept {
  for (Stream*& stream : choice.streams) stream = nullptr;
}

}  // namespace atalla::runtime
