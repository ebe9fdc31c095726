// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "runtime/c_api/export.h"

namespace atalla::runtime {

class Device;
struct EventRecord;
class Stream;

// A point in the work of a stream. May be recorded again; queries and waits mean the latest record at the time of their
// call. Not for concurrent use of one Event by several threads.
class ATALLA_RUNTIME_API Event {
 public:
  explicit Event(Device& device);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  // `stream` must belong to the event's device, else Error (ATALLA_ERR_ARGUMENT).
  void record(Stream& stream);
  // Later work of `stream` (of any device) waits for the event. Without a record it does nothing.
  void block(Stream& stream);
  // True without a record, as in CUDA.
  bool query() const;
  void synchronize() const;
  bool recorded() const noexcept { return record_ != nullptr; }
  // Simulated clock of the device when the event was reached. Throws Error: ATALLA_ERR_ARGUMENT without a record,
  // ATALLA_NOT_READY while the work before it is running.
  uint64_t cycles() const;
  // Simulated time from this event to `end`, in milliseconds; negative if `end` came first.
  double elapsed_ms(const Event& end) const;
  Device& device() const noexcept { return *device_; }

 private:
  Device* device_;
  EventRecord* record_ = nullptr;  // of the latest record call; counted reference
};

}  // namespace atalla::runtime
