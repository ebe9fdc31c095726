// SPDX-License-Identifier: BSD-3-Clause
//
// When the chip's units work for whom, in simulated cycles. docs/concepts/timing.md explains the model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "sim/abi/atalla.h"
#include "sim/time/timing.h"

namespace atalla::sim {

// The idle time of one unit: everything from `frontier` on, and gaps before it. At most kGaps gaps are kept; when one
// more comes up, the earliest is forgotten and counts as busy from then on.
class UnitCalendar {
 public:
  static constexpr uint32_t kGaps = 4096;  // a power of two

  // Takes the first `busy` (not 0) idle cycles from `start` on, in as many pieces as it needs. From the first to past
  // the last of them there is no idle cycle left.
  atalla_unit_span take(uint64_t start, uint64_t busy) {
    if (start < frontier_) return take_early(start, busy);
    if (start > frontier_) append({frontier_, start});
    frontier_ = start + busy;
    return {start, frontier_};
  }

  // Nothing will be taken before `clock` any more.
  void forget_before(uint64_t clock);

  uint64_t frontier() const { return frontier_; }
  uint32_t gaps() const { return count_; }

 private:
  struct Gap {
    uint64_t begin;
    uint64_t end;
  };

  Gap& at(uint32_t i) { return ring_[(first_ + i) & (kGaps - 1)]; }
  void append(Gap gap) {
    if (count_ == kGaps) {
      ++first_;
      --count_;
    }
    at(count_++) = gap;
  }
  atalla_unit_span take_early(uint64_t start, uint64_t busy);
  uint32_t first_ending_after(uint64_t clock);
  void insert(uint32_t i, Gap gap);
  void erase(uint32_t i, uint32_t n);

  uint64_t frontier_ = 0;
  uint32_t first_ = 0;  // slot of the earliest gap, modulo kGaps
  uint32_t count_ = 0;
  std::unique_ptr<Gap[]> ring_ = std::make_unique<Gap[]>(kGaps);  // gaps in ascending order, disjoint, none empty
};

// When one piece of work starts and ends, and when each unit works for it.
struct Placement {
  uint64_t start = 0;
  uint64_t end = 0;
  atalla_unit_span sdma{};
  atalla_unit_span vector{};
  atalla_unit_span array{};
};

// All units of a chip. Work that starts at a cycle gets each unit's idle time from there on, and ends when it has run
// for its own cycles and every unit has served it. Not thread-safe.
class Schedule {
 public:
  Placement place(uint64_t start, const Charge& charge) {
    Placement placed{start, start + charge.cycles, {start, start}, {start, start}, {start, start}};
    if (charge.sdma_cycles != 0) serve(sdma_, charge.sdma_cycles, &placed.sdma, &placed);
    if (charge.vector_cycles != 0) serve(vector_, charge.vector_cycles, &placed.vector, &placed);
    if (charge.array_cycles != 0) serve(array_, charge.array_cycles, &placed.array, &placed);
    atalla_unit_span link;  // is in no record
    if (charge.link_cycles != 0) serve(link_, charge.link_cycles, &link, &placed);
    return placed;
  }

  void forget_before(uint64_t clock) {
    sdma_.forget_before(clock);
    vector_.forget_before(clock);
    array_.forget_before(clock);
    link_.forget_before(clock);
  }

 private:
  static void serve(UnitCalendar& unit, uint64_t busy, atalla_unit_span* span, Placement* placed) {
    *span = unit.take(placed->start, busy);
    placed->end = std::max(placed->end, span->end);
  }

  UnitCalendar sdma_;
  UnitCalendar vector_;
  UnitCalendar array_;
  UnitCalendar link_;
};

}  // namespace atalla::sim
