// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated clock of a device, its counters, and the ring of its latest launch records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "atalla.h"
#include "functional/kernel.h"
#include "spin_lock.h"
#include "timing.h"

namespace atalla::sim {

// Thread-safe. The chip executes one launch or copy at a time, so the device's clock orders the work of its streams:
// work starts when both its stream and the chip are free.
class Telemetry {
 public:
  // `capacity` records are allocated here, none later.
  explicit Telemetry(size_t capacity);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // Both return the clock at which the work ends, given the clock at which its stream becomes free.
  uint64_t record_launch(uint64_t stream_clock, uint32_t stream, const atalla_launch_desc& desc, const Cost& cost,
                         const Charge& charge);
  struct CopyBytes {
    uint64_t dram_read = 0;
    uint64_t dram_written = 0;
    uint64_t from_host = 0;
    uint64_t to_host = 0;
  };
  uint64_t record_copy(uint64_t stream_clock, const CopyBytes& bytes, const Charge& charge);

  uint64_t launches() const;  // sequence number of the next launch
  atalla_counters counters() const;
  void reset_counters();  // the clock, the sequence and the records stay
  // As launch_records of atalla.h.
  void records(uint64_t from, atalla_launch_record* out, size_t* count) const;

 private:
  mutable SpinLock lock_;
  uint64_t clock_ = 0;     // when the chip is free
  uint64_t sequence_ = 0;  // of the next launch
  size_t capacity_;
  size_t next_ = 0;  // slot of the next launch
  atalla_launch_record* ring_;
  atalla_counters counters_{};
};

// Fills all of *record but sequence, start_cycle and stream; sizes beyond ndim keep what they were.
void fill_launch_record(const atalla_launch_desc& desc, const Cost& cost, const Charge& charge,
                        atalla_launch_record* record);

}  // namespace atalla::sim
