// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated time of a device, its counters, and the ring of its latest work records.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/abi/atalla.h"
#include "sim/energy/model.h"
#include "sim/host/spin_lock.h"
#include "sim/time/instant.h"
#include "sim/time/schedule.h"
#include "sim/time/timing.h"

namespace atalla::sim {

// When a stream is free. Guarded by the lock of its device's telemetry.
using StreamClock = Instant;

// All that a launch is charged.
struct LaunchCharge {
  Charge time;
  uint64_t bytes_read = 0;  // of DRAM
  uint64_t bytes_written = 0;
  uint64_t macs = 0;
  atalla_energy energy{};  // without standby and leakage
  bool assumed = true;     // no code tells
};

// All that a chip knows of a copy when it charges its own part.
struct CopyShape {
  uint32_t kind = 0;
  bool reads = false;  // DRAM of this device
  bool writes = false;
  uint64_t row_bytes = 0;
  uint64_t rows = 0;

  bool operator==(const CopyShape&) const = default;
};

struct CopyCharge {
  CopyShape shape;
  Charge time;
  atalla_energy energy{};  // without standby and leakage
};

// The energy of a copy whose time is known.
atalla_energy copy_energy(const EnergyModel& energy, const CopyShape& shape, const Charge& time);

// Thread-safe.
class Telemetry {
 public:
  // Memory for `capacity` records is reserved here, and taken as they come. The model must live as long.
  Telemetry(size_t capacity, const EnergyModel& energy);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // Schedules the work, counts and records it, and moves the stream's clock to its end. It starts when the stream is
  // free, not before what the calling thread has waited for, and not before the latest barrier.
  void record_launch(StreamClock* clock, uint32_t stream, const atalla_launch_desc& desc, const LaunchCharge& charge);
  // The same for a launch whose head fill_head has written. The tag is this launch's own.
  void record_launch(StreamClock* clock, uint32_t stream, const atalla_launch_record& head, uint64_t tag,
                     const LaunchCharge& charge);
  // Of a launch that the journal keeps, for the error texts that number launches.
  void expect_launch() { expected_.fetch_add(1, std::memory_order_relaxed); }
  void forget_expected() { expected_.fetch_sub(1, std::memory_order_relaxed); }
  Placement record_copy(StreamClock* clock, uint32_t stream, uint64_t tag, const CopyCharge& copy);

  // The simulated time of a stream for whoever records an event on it.
  Instant read(const StreamClock& clock) const;
  void lift(StreamClock* clock, Instant instant);
  void reset(StreamClock* clock);
  // The stream waits for other chips from now on.
  std::shared_ptr<Meeting> meet(StreamClock* clock);
  // The host has waited for the stream: the meetings before are over, and later work is placed behind them. Returns
  // the stream's cycle.
  uint64_t settle(StreamClock* clock);

  // The host has waited for the whole device: nothing submitted later starts before the end of what was submitted so
  // far, which is returned.
  uint64_t barrier();

  uint64_t launches() const;  // sequence number of the next launch
  atalla_counters counters() const;
  void reset_counters();  // time, sequences and records stay
  // As launch_records and work_records of atalla.h.
  void launch_records(uint64_t from, atalla_launch_record* out, size_t* count) const;
  void work_records(uint64_t from, void* out, size_t record_bytes, size_t* count) const;

 private:
  void populate();
  template <class Fill>
  void record(StreamClock* clock, uint32_t stream, const LaunchCharge& charge, const Fill& fill);
  Placement place(StreamClock* clock, const Charge& charge);
  atalla_work_record& next_record(const Placement& placed, uint32_t kind, uint32_t stream);
  // A record that is kept, moved behind the meeting for which its stream waited.
  atalla_work_record kept(uint64_t sequence) const;
  size_t slot(uint64_t sequence) const { return (next_ + capacity_ - (sequence_ - sequence)) % capacity_; }
  uint64_t oldest() const { return sequence_ > capacity_ ? sequence_ - capacity_ : 0; }

  mutable SpinLock lock_;
  Schedule schedule_;
  uint64_t floor_ = 0;     // of the latest barrier
  uint64_t horizon_ = 0;   // when all work submitted so far is done
  uint64_t sequence_ = 0;  // of the next work
  uint64_t launches_ = 0;
  std::atomic<uint64_t> expected_{0};
  size_t capacity_;
  size_t next_ = 0;              // slot of the next record
  size_t ready_ = 0;             // records that have memory
  atalla_work_record* ring_;     // their energy is without standby and leakage
  std::vector<Instant> starts_;  // of the records in the ring; empty until a stream meets other chips
  atalla_counters counters_{};
  uint64_t counted_from_ = 0;  // cycle of the latest reset
  const EnergyModel& energy_;
};

// Fills of a launch's record what the descriptor says; sizes beyond ndim keep what they were.
void fill_head(const atalla_launch_desc& desc, atalla_launch_record* record);
// And what the charge says. Both leave sequence, start_cycle and stream.
void fill_charge(const LaunchCharge& charge, atalla_launch_record* record);

}  // namespace atalla::sim
