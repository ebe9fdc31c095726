// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/abi/atalla.h"

namespace atalla::runtime {

class Capture;
class Device;
class EventPool;

// One record of an event. Each record has a chip event of its own, so that recording an event again does not disturb
// those who wait for the earlier record. The chip's event carries the simulated time only; that the work before it is
// done is the driver's to say.
struct EventRecord {
  EventPool* pool = nullptr;
  atalla_event handle = nullptr;
  std::atomic<bool> reached{false};  // the work before it has been executed (or dropped behind a fault)
  std::atomic<bool> refused{false};  // the chip gave it no time
  std::atomic<uint32_t> references{0};
  std::shared_ptr<Capture> capture;  // that holds the record, which is then no point in time but one in a graph
  uint64_t position = 0;             // in the capture

  void retain() noexcept { references.fetch_add(1, std::memory_order_relaxed); }
};

// The event records of one device, reused when nobody refers to them. Thread-safe.
class EventPool {
 public:
  static constexpr const char* kCapturedEvent =
      "operation not permitted on an event last recorded in a capturing stream";

  explicit EventPool(Device& device) : device_(device) {}

  EventRecord* acquire();  // one reference, not reached. Throws Error if the chip has no event left
  static void release(EventRecord* record) noexcept;

  // Gives the record the stream's simulated time. Returns what the chip said.
  atalla_status stamp(EventRecord* record, atalla_stream stream);
  // Later work of `stream` starts at the record's simulated time or later.
  atalla_status advance_clock(EventRecord* record, atalla_stream stream);
  // The work before the record is done: stamps it first, when a stream is given, and wakes who waits for it.
  atalla_status reach(EventRecord* record, atalla_stream stream);
  void wait_reached(const EventRecord* record);
  // Whether all work before the record is done. A refused record counts as done: nothing is left to wait for.
  bool done(const EventRecord* record);
  void synchronize(const EventRecord* record);

 private:
  Device& device_;
  std::mutex mutex_;
  std::condition_variable reached_;
  std::atomic<uint32_t> sleepers_{0};
  std::deque<EventRecord> records_;  // stable addresses
  std::vector<EventRecord*> unused_;
};

}  // namespace atalla::runtime
