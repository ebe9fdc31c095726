// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/c_api/export.h"
#include "runtime/memory/allocator.h"
#include "runtime/stream/stream.h"
#include "sim/abi/atalla.h"

namespace atalla::runtime {

inline constexpr int kMaxDevices = 64;
inline constexpr int kStreamsPerPriority = 32;  // created on demand, then handed out again in turn
inline constexpr int kMaxStreams = 1 + 2 * kStreamsPerPriority;

class EngineGate;
class EventPool;

// A device of the chip. Opened on first use; lives until the process ends.
class ATALLA_RUNTIME_API Device {
 public:
  // Throws Error: ATALLA_ERR_ARGUMENT for an ordinal outside [0, device_count()), or why the device cannot be opened.
  static Device& get(int ordinal);
  static bool is_open(int ordinal) noexcept;

  int ordinal() const noexcept { return properties_.ordinal; }
  atalla_device handle() const noexcept { return handle_; }
  const atalla_device_properties& properties() const noexcept { return properties_; }
  CachingAllocator& allocator() noexcept { return *allocator_; }
  LaunchMode launch_mode() const noexcept { return mode_.load(std::memory_order_relaxed); }
  EngineGate& engine_gate() noexcept { return *engine_gate_; }
  // Held while Atalla code runs, with all streams idle: it may use all pages of the scratchpads.
  std::mutex& scratchpads() noexcept { return scratchpads_; }

  Stream& default_stream() noexcept { return *streams_[0].load(std::memory_order_relaxed); }
  // The stream of an id that new_stream gave, or 0. Throws Error (ATALLA_ERR_ARGUMENT) for another.
  Stream& stream(int64_t id);
  // One of 32 streams of the priority (below 0: urgent; else normal), in turn.
  Stream& new_stream(int priority = 0);
  // True once new_stream has given one.
  bool has_new_streams() const noexcept { return has_new_streams_.load(std::memory_order_relaxed); }
  // Waits for all streams. Throws the first fault, and clears all of them.
  void synchronize();
  // Waits for all streams, and leaves their faults.
  void drain();

  // Whether the address lies in this device's DRAM.
  bool contains(const void* ptr) const noexcept {
    return reinterpret_cast<uintptr_t>(ptr) - base_ < properties_.dram_bytes;
  }
  // Host pointer to [device_ptr, device_ptr + bytes) through the engine view. The caller synchronises. nullptr for zero
  // bytes of nullptr. Throws Error (ATALLA_ERR_FAULT_ADDRESS) for a range outside DRAM.
  void* host_view(const void* device_ptr, size_t bytes) const {
    uintptr_t offset = reinterpret_cast<uintptr_t>(device_ptr) - base_;
    if (host_base_ != nullptr && offset <= properties_.dram_bytes && bytes <= properties_.dram_bytes - offset)
        [[likely]]
      return host_base_ + offset;
    return host_view_slow(device_ptr, bytes);
  }
  // The device address of a host pointer into the engine view; nullptr if it is not one.
  void* device_pointer(const void* host_ptr) const noexcept {
    uintptr_t offset = reinterpret_cast<uintptr_t>(host_ptr) - reinterpret_cast<uintptr_t>(host_base_);
    return host_base_ != nullptr && offset < properties_.dram_bytes ? reinterpret_cast<void*>(base_ + offset) : nullptr;
  }

  // DRAM that no segment of the allocator (nor another owner) holds, and the capacity; bytes.
  void memory_info(uint64_t* free_bytes, uint64_t* total_bytes) const;
  // Of all work submitted so far.
  atalla_counters counters();
  void reset_counters();
  EventPool& event_pool() noexcept { return *event_pool_; }

  // At the end of the process: drops what is queued on all devices and ends their workers. Later work runs on its
  // calling thread. Called by itself when the process exits; a host whose exit handlers host calls need calls it
  // before.
  static void stop_workers();

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

 private:
  explicit Device(int ordinal);
  ~Device() = delete;
  void* host_view_slow(const void* device_ptr, size_t bytes) const;
  Stream& open_stream(int64_t id, int priority);

  uintptr_t base_ = 0;         // of the device view
  char* host_base_ = nullptr;  // of the engine view; null if the library does not give it as one range
  atalla_device handle_ = nullptr;
  atalla_device_properties properties_{};
  std::atomic<LaunchMode> mode_;
  std::unique_ptr<CachingAllocator> allocator_;
  std::unique_ptr<EventPool> event_pool_;
  std::unique_ptr<EngineGate> engine_gate_;
  std::array<std::atomic<Stream*>, kMaxStreams> streams_{};  // by id
  std::array<std::atomic<uint32_t>, 2> next_stream_{};       // by priority class
  std::atomic<bool> has_new_streams_{false};
  std::mutex stream_mutex_;
  std::mutex scratchpads_;
};

// Ordinal of the open device whose DRAM holds the address.
ATALLA_RUNTIME_API std::optional<int> device_of(const void* ptr) noexcept;

// The calling thread's current device (0 at first), and its current stream on each device (the default stream at
// first).
ATALLA_RUNTIME_API int current_device() noexcept;
ATALLA_RUNTIME_API void set_current_device(
    int ordinal);  // Error (ATALLA_ERR_ARGUMENT) for a bad ordinal; opens nothing
ATALLA_RUNTIME_API Stream& current_stream(int ordinal);
ATALLA_RUNTIME_API void set_current_stream(Stream& stream) noexcept;  // of its device; leaves the current device

}  // namespace atalla::runtime
