// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "../sim/atalla.h"

namespace atalla::runtime {

class Device;
class EventPool;

// One record of an event. Each record has a chip event of its own, so that recording an event again does not disturb
// those who wait for the earlier record.
struct EventRecord {
  enum class State : uint8_t {
    kQueued,   // the worker has not come to it
    kReached,  // the chip has it
    kFailed,   // the chip refused it
  };
  EventPool* pool = nullptr;
  atalla_event handle = nullptr;
  std::atomic<State> state{State::kQueued};
  std::atomic<uint32_t> references{0};

  void retain() noexcept { references.fetch_add(1, std::memory_order_relaxed); }
};

// The event records of one device, reused when nobody refers to them. Thread-safe.
class EventPool {
 public:
  explicit EventPool(Device& device) : device_(device) {}

  EventRecord* acquire();  // one reference, kQueued. Throws Error if the chip has no event left
  static void release(EventRecord* record) noexcept;

  // Hands the record to the chip on the calling thread. Returns what the chip said; the state tells waiters.
  atalla_status submit(EventRecord* record, atalla_stream stream);
  // Blocks until the record is with the chip (or has failed).
  void wait_submitted(const EventRecord* record);
  // Whether all work before the record is done. A failed record counts as done: nothing is left to wait for.
  bool done(const EventRecord* record);
  void synchronize(const EventRecord* record);

 private:
  Device& device_;
  std::mutex mutex_;
  std::condition_variable submitted_;
  std::deque<EventRecord> records_;  // stable addresses
  std::vector<EventRecord*> unused_;
};

}  // namespace atalla::runtime
