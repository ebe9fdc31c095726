// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/device/device.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/device/api.h"
#include "runtime/device/error.h"
#include "runtime/device/fork.h"
#include "runtime/memory/allocator_state.h"
#include "runtime/memory/sharing.h"
#include "runtime/stream/async_fault.h"
#include "runtime/stream/engine_gate.h"
#include "runtime/stream/event_pool.h"
#include "runtime/stream/launch_queue.h"
#include "runtime/stream/private_streams.h"

namespace atalla::runtime {
namespace {

// Devices are never destroyed: tensors and threads of the process may outlive any static object.
std::array<std::atomic<Device*>, kMaxDevices> open_devices{};
std::atomic<int> open_end{0};  // one past the highest open ordinal
std::mutex open_mutex;

LaunchMode chosen_mode() {
  const char* variable = std::getenv("ATALLA_LAUNCH");
  const std::string_view mode = variable != nullptr ? variable : "";
  if (mode.empty() || mode == "auto") return LaunchMode::kAuto;
  if (mode == "inline") return LaunchMode::kInline;
  if (mode == "queued") return LaunchMode::kQueued;
  throw Error(ATALLA_ERR_ARGUMENT,
              "ATALLA_LAUNCH is '" + std::string(mode) + "', expected 'auto', 'inline' or 'queued'");
}

// The device library's static objects are destroyed after the functions that atexit got later than they were made; a
// worker that still launches then would use them. So the workers end first.
void stop_workers_at_exit() {
  static const int registered = std::atexit(&Device::stop_workers);
  (void)registered;
}

}  // namespace

void forget_devices() noexcept {
  for (auto& entry : open_devices) entry.store(nullptr);
  open_end.store(0);
}

Device& Device::get(int ordinal) {
  if (ordinal >= 0 && ordinal < kMaxDevices) [[likely]] {
    if (Device* device = open_devices[ordinal].load(std::memory_order_acquire)) [[likely]]
      return *device;
  }
  refuse_after_fork();
  int32_t count = 0;
  check(api().device_count(&count));  // not device_count(): a library that cannot be loaded gives its reason here
  count = std::min(count, kMaxDevices);
  if (ordinal < 0 || ordinal >= count) {
    throw Error(ATALLA_ERR_ARGUMENT, "invalid device ordinal " + std::to_string(ordinal) + ", expected 0 to " +
                                         std::to_string(count - 1) + ": there are " + std::to_string(count) +
                                         " atalla devices");
  }
  std::lock_guard lock(open_mutex);
  if (Device* device = open_devices[ordinal].load(std::memory_order_relaxed)) return *device;
  Device* device = new Device(ordinal);
  open_devices[ordinal].store(device, std::memory_order_release);
  open_end.store(std::max(open_end.load(std::memory_order_relaxed), ordinal + 1), std::memory_order_release);
  return *device;
}

bool Device::is_open(int ordinal) noexcept {
  return ordinal >= 0 && ordinal < kMaxDevices && open_devices[ordinal].load(std::memory_order_acquire) != nullptr;
}

Device::Device(int ordinal) : mode_(chosen_mode()) {
  atalla_device_params params{};
  params.struct_size = sizeof params;
  params.ordinal = ordinal;
  check(api().device_open(&params, &handle_));
  try {
    properties_.struct_size = sizeof properties_;
    check(api().device_properties(handle_, &properties_));
    properties_.ordinal = ordinal;
    base_ = static_cast<uintptr_t>(properties_.dram_base);
    // A library that maps no engine view (a board) answers each range by itself, or refuses.
    void* host = nullptr;
    if (api().device_host_view(handle_, base_, properties_.dram_bytes, &host) == ATALLA_OK)
      host_base_ = static_cast<char*>(host);
    event_pool_ = std::make_unique<EventPool>(*this);
    engine_gate_ = std::make_unique<EngineGate>();
    allocator_ = std::make_unique<AllocatorState>(*this);
    atalla_stream stream = nullptr;
    check(api().stream_default(handle_, &stream));
    streams_[0].store(new Stream(*this, 0, 0, stream, mode_), std::memory_order_release);
  } catch (...) {
    api().device_close(handle_);
    throw;
  }
  watch_fork();
  stop_workers_at_exit();
}

void Device::stop_workers() {
  if (in_forked_child()) return;  // it has none
  const auto each_stream = [](auto&& action) {
    for (auto& entry : open_devices) {
      Device* device = entry.load(std::memory_order_acquire);
      if (device == nullptr) continue;
      for (auto& slot : device->streams_) {
        if (Stream* stream = slot.load(std::memory_order_acquire)) action(*stream);
      }
      for_each_private_stream(*device, action);
    }
  };
  for (auto& entry : open_devices) {  // for the streams to come
    if (Device* device = entry.load(std::memory_order_acquire))
      device->mode_.store(LaunchMode::kInline, std::memory_order_relaxed);
  }
  // All, before any: they may wait for each other.
  each_stream([](Stream& stream) {
    if (LaunchQueue* queue = stream.queue()) queue->abandon();
  });
  run_stop_hooks();
  each_stream([](Stream& stream) { stream.stop_worker(); });
}

Stream& Device::stream(int64_t id) {
  Stream* stream = id >= 0 && id < kMaxStreams ? streams_[id].load(std::memory_order_acquire) : nullptr;
  if (stream == nullptr) stream = find_private_stream(*this, id);
  if (stream == nullptr) {
    throw Error(ATALLA_ERR_ARGUMENT, "device " + std::to_string(ordinal()) + " has no stream " + std::to_string(id) +
                                         "; ids come from new_stream, and 0 is the default stream");
  }
  return *stream;
}

Stream& Device::new_stream(int priority) {
  const int urgent = priority < 0 ? 1 : 0;
  const uint32_t turn = next_stream_[urgent].fetch_add(1, std::memory_order_relaxed) % kStreamsPerPriority;
  return open_stream(1 + urgent * kStreamsPerPriority + static_cast<int64_t>(turn), urgent ? -1 : 0);
}

Stream& Device::open_stream(int64_t id, int priority) {
  if (Stream* stream = streams_[id].load(std::memory_order_acquire)) return *stream;
  std::lock_guard lock(stream_mutex_);
  if (Stream* stream = streams_[id].load(std::memory_order_relaxed)) return *stream;
  atalla_stream handle = nullptr;
  check(api().stream_create(handle_, priority, &handle));
  Stream* stream = new Stream(*this, id, priority, handle, mode_);
  streams_[id].store(stream, std::memory_order_release);
  has_new_streams_.store(true, std::memory_order_relaxed);
  return *stream;
}

void Device::synchronize() {
  const auto each_queue = [this](auto&& action) {
    const auto queue_of = [&](Stream& stream) {
      if (stream.recorder() != nullptr)
        throw Error(ATALLA_ERR_ARGUMENT, "operation not permitted when stream is capturing: synchronizing the device");
      if (LaunchQueue* queue = stream.queue()) action(*queue);
    };
    for (auto& slot : streams_) {
      if (Stream* stream = slot.load(std::memory_order_acquire)) queue_of(*stream);
    }
    for_each_private_stream(*this, queue_of);
  };
  std::optional<Error> first;
  each_queue([](LaunchQueue& queue) { queue.drain(); });
  each_queue([&](LaunchQueue& queue) {
    auto fault = queue.take_fault();
    if (fault.has_value() && !first.has_value()) first = std::move(fault);
  });
  const atalla_status status = api().device_synchronize(handle_);
  if (first.has_value()) throw *first;
  check(status);
  throw_async_fault(*this);
}

void Device::drain() {
  for (auto& slot : streams_) {
    if (Stream* stream = slot.load(std::memory_order_acquire)) stream->drain();
  }
}

void* Device::host_view_slow(const void* device_ptr, size_t bytes) const {
  if (device_ptr == nullptr && bytes == 0) return nullptr;
  const uintptr_t offset = reinterpret_cast<uintptr_t>(device_ptr) - base_;
  const bool inside = offset <= properties_.dram_bytes && bytes <= properties_.dram_bytes - offset;
  if (!inside && importer_of(device_ptr) != ordinal()) {
    throw Error(ATALLA_ERR_FAULT_ADDRESS, std::to_string(bytes) + " bytes at address " +
                                              std::to_string(reinterpret_cast<uintptr_t>(device_ptr)) +
                                              " do not lie in the DRAM of device " + std::to_string(ordinal()));
  }
  void* host = nullptr;
  check(api().device_host_view(handle_, reinterpret_cast<atalla_addr>(device_ptr), bytes, &host));
  return host;
}

void Device::memory_info(uint64_t* free_bytes, uint64_t* total_bytes) const {
  check(api().mem_info(handle_, free_bytes, total_bytes));
}

atalla_counters Device::counters() {
  if (!charges_at_submission()) drain();  // such a library counts what has run
  atalla_counters counters{};
  counters.struct_size = sizeof counters;
  check(api().counters_read(handle_, &counters));
  return counters;
}

void Device::reset_counters() {
  if (!charges_at_submission()) drain();
  check(api().counters_reset(handle_));
}

std::optional<int> device_of(const void* ptr) noexcept {
  const int end = open_end.load(std::memory_order_acquire);
  for (int ordinal = 0; ordinal < end; ++ordinal) {
    const Device* device = open_devices[ordinal].load(std::memory_order_acquire);
    if (device != nullptr && device->contains(ptr)) return ordinal;
  }
  return importer_of(ptr);
}

}  // namespace atalla::runtime
