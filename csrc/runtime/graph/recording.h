// SPDX-License-Identifier: BSD-3-Clause
//
// Everything that threads submit and devices do during some time: what profilers and traces are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/c_api/export.h"
#include "sim/abi/atalla.h"

namespace atalla::runtime {

// The submission of one launch or copy, on the host's clock (nanoseconds since the Unix epoch).
struct HostCall {
  uint64_t tag = 0;  // of the work, in the device's records; unique in a recording
  const char* name = "";
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int32_t thread = 0;  // the system's id
  int32_t range = -1;  // index in RecordedWork::ranges: the innermost range of the thread; -1: none
  uint64_t op = 0;     // the innermost op of the thread; 0: none
};

struct UserRange {
  uint64_t id = 0;
  int32_t parent = -1;  // index of the range around it
};

struct DeviceWork {
  int ordinal = 0;
  double clock_hz = 0;
  std::vector<atalla_work_record> records;  // in order of submission
  uint64_t lost = 0;                        // records that the device overwrote before they were read
};

struct RecordedWork {
  int64_t begin_ns = 0;  // on the host's clock
  int64_t end_ns = 0;
  uint64_t origin = 0;  // simulated clock at begin_ns, in cycles
  std::vector<HostCall> calls;
  std::vector<UserRange> ranges;
  std::vector<DeviceWork> devices;  // those that were open at the end
};

// Records from its construction to stop(). All work submitted before is waited for first, so that what follows starts
// at the origin or later; faults stay with their streams. Recordings may overlap. Throws Error when the device library
// keeps no records of work (ABI version 1.0).
class ATALLA_RUNTIME_API Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  RecordedWork stop();

 private:
  bool running_ = true;
  int64_t begin_ns_ = 0;
  uint64_t origin_ = 0;
  size_t first_call_ = 0;
  std::vector<uint64_t> first_record_;  // by ordinal
};

// What the calling thread is doing, in the numbers of whoever records: the ops and the user's ranges that it is in.
// Ids that stood on a thread when forget_thread_ids was called are dropped.
namespace thread_ids {
ATALLA_RUNTIME_API void push_op(uint64_t id);
ATALLA_RUNTIME_API void pop_op() noexcept;
ATALLA_RUNTIME_API void push_range(uint64_t id);
ATALLA_RUNTIME_API void pop_range() noexcept;
ATALLA_RUNTIME_API void forget() noexcept;  // of all threads
}  // namespace thread_ids

}  // namespace atalla::runtime
