// SPDX-License-Identifier: BSD-3-Clause
//
// A point in simulated time, which may depend on cycles that are told later: those at which other chips arrive at a
// meeting (stream_meet of atalla.h). docs/concepts/timing.md explains it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace atalla::sim {

class Meeting;

struct Instant {
  // Without the meeting. Work is placed by this cycle alone, so that the schedule of a chip's units does not depend on
  // when the host learns of other chips.
  uint64_t cycles = 0;
  // Null: no meeting. Otherwise the instant is not before `after` cycles past the end of the meeting.
  std::shared_ptr<const Meeting> meeting = nullptr;
  uint64_t after = 0;

  bool known() const;         // the cycle of the meeting has been told
  uint64_t resolved() const;  // with the meeting, if its cycle is known
};

Instant later(Instant a, Instant b);

// The end of a wait for other chips: not before `arrival`, nor before the cycle that `tell` gives. Thread-safe.
class Meeting {
 public:
  explicit Meeting(Instant arrival) : first_(std::move(arrival)) {}
  // The later of two instants: nothing has to be told.
  Meeting(Instant first, Instant second);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  Instant arrival() const;
  void tell(uint64_t cycle);
  std::optional<uint64_t> cycle() const;

 private:
  static constexpr uint64_t kUnknown = UINT64_MAX;
  bool find() const;

  mutable std::atomic<uint64_t> cycle_{kUnknown};
  // Guarded by a lock of all meetings. Instants are dropped when the cycle is known.
  mutable Instant first_;
  mutable Instant second_{};
  std::optional<uint64_t> told_;
};

}  // namespace atalla::sim
