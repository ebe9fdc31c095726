// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/private_streams.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/api.h"
#include "runtime/device/device.h"
#include "runtime/device/error.h"
#include "runtime/device/fork.h"
#include "runtime/stream/stream.h"

namespace atalla::runtime {
namespace {

struct PrivateStreams {
  std::mutex mutex;
  std::vector<Stream*> all[kMaxDevices];  // by id - kMaxStreams
  std::vector<Stream*> free[kMaxDevices];
  std::vector<std::function<void()>> hooks;
};

// Never destroyed, like the devices.
PrivateStreams& private_streams() {
  static auto* const streams = new PrivateStreams;
  return *streams;
}

}  // namespace

Stream& take_private_stream(Device& device) {
  refuse_after_fork();
  PrivateStreams& streams = private_streams();
  const auto ordinal = static_cast<size_t>(device.ordinal());
  const std::lock_guard lock(streams.mutex);
  std::vector<Stream*>& free = streams.free[ordinal];
  if (!free.empty()) {
    Stream* stream = free.back();
    free.pop_back();
    return *stream;
  }
  std::vector<Stream*>& all = streams.all[ordinal];
  if (all.size() == kMaxPrivateStreams) {
    throw Error(ATALLA_ERR_LIMIT, "all " + std::to_string(kMaxPrivateStreams) + " private streams of device " +
                                      std::to_string(device.ordinal()) + " are in use");
  }
  all.reserve(all.size() + 1);
  free.reserve(all.size() + 1);  // so that giving back never allocates
  atalla_stream handle = nullptr;
  check(api().stream_create(device.handle(), 0, &handle));
  const auto id = static_cast<int64_t>(kMaxStreams) + static_cast<int64_t>(all.size());
  all.push_back(new Stream(device, id, 0, handle, LaunchMode::kQueued));
  return *all.back();
}

void give_back_private_stream(Stream& stream) {
  PrivateStreams& streams = private_streams();
  const std::lock_guard lock(streams.mutex);
  streams.free[static_cast<size_t>(stream.device().ordinal())].push_back(&stream);
}

Stream* find_private_stream(const Device& device, int64_t id) noexcept {
  PrivateStreams& streams = private_streams();
  const std::lock_guard lock(streams.mutex);
  const std::vector<Stream*>& all = streams.all[static_cast<size_t>(device.ordinal())];
  const int64_t place = id - kMaxStreams;
  return place >= 0 && place < static_cast<int64_t>(all.size()) ? all[static_cast<size_t>(place)] : nullptr;
}

void for_each_private_stream(const Device& device, const std::function<void(Stream&)>& action) {
  PrivateStreams& streams = private_streams();
  std::vector<Stream*> all;
  {
    const std::lock_guard lock(streams.mutex);
    all = streams.all[static_cast<size_t>(device.ordinal())];
  }
  for (Stream* stream : all) action(*stream);
}

void before_stop_of_workers(std::function<void()> hook) {
  PrivateStreams& streams = private_streams();
  const std::lock_guard lock(streams.mutex);
  streams.hooks.push_back(std::move(hook));
}

void run_stop_hooks() {
  std::vector<std::function<void()>> hooks;
  {
    const std::lock_guard lock(private_streams().mutex);
    hooks = private_streams().hooks;
  }
  for (const auto& hook : hooks) hook();
}

}  // namespace atalla::runtime
