// SPDX-License-Identifier: BSD-3-Clause
//
// The calendar of one unit against a model that marks single cycles.
#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "check.h"
#include "sim/time/schedule.cpp"

using namespace atalla::sim;

namespace {

// Every cycle of a short time, free or not.
struct Cycles {
  std::vector<bool> busy = std::vector<bool>(1 << 17, false);
  atalla_unit_span take(uint64_t start, uint64_t n) {
    atalla_unit_span span{0, 0};
    bool begun = false;
    for (uint64_t t = start; n != 0; ++t) {
      if (busy[t]) continue;
      busy[t] = true;
      if (!begun) span.begin = t;
      begun = true;
      span.end = t + 1;
      --n;
    }
    return span;
  }
};

// Each unit's time is given away once: what the calendar gives is what a walk over single cycles finds.
void test_against_cycles(uint32_t seed) {
  std::mt19937 random(seed);
  UnitCalendar calendar;
  Cycles cycles;
  uint64_t total = 0;
  uint64_t floor = 0;
  for (int i = 0; i < 1500; ++i) {
    if (random() % 200 == 0) {
      floor = std::min<uint64_t>(floor + random() % 100, calendar.frontier());
      calendar.forget_before(floor);
    }
    const uint64_t reach = calendar.frontier() + 60 - floor;
    const uint64_t start = floor + random() % reach;
    const uint64_t busy = 1 + random() % (random() % 8 == 0 ? 60 : 12);
    const atalla_unit_span got = calendar.take(start, busy);
    const atalla_unit_span expected = cycles.take(start, busy);
    CHECK_EQ(got.begin, expected.begin);
    CHECK_EQ(got.end, expected.end);
    CHECK(got.begin >= start && got.end - got.begin >= busy);
    total += busy;
    if (got.end != expected.end) return;
  }
  CHECK_EQ(static_cast<uint64_t>(std::count(cycles.busy.begin(), cycles.busy.end(), true)), total);
  CHECK(total <= calendar.frontier());
}

// A full calendar forgets its earliest gap, and never gives a cycle twice.
void test_bound() {
  UnitCalendar calendar;
  constexpr uint64_t kWork = UnitCalendar::kGaps + 100;
  for (uint64_t i = 0; i < kWork; ++i) calendar.take(10 * i + 5, 5);  // idle [10 i, 10 i + 5)
  CHECK_EQ(calendar.gaps(), UnitCalendar::kGaps);
  atalla_unit_span span = calendar.take(0, 1);
  CHECK_EQ(span.begin, 10u * 100);  // the first hundred gaps are gone
  // Splitting a gap while the calendar is full costs the earliest one.
  span = calendar.take(10 * 2000 + 2, 1);
  CHECK_EQ(span.begin, 10u * 2000 + 2);
  CHECK_EQ(calendar.gaps(), UnitCalendar::kGaps);
  CHECK_EQ(calendar.take(0, 1).begin, 10u * 101);
  CHECK_EQ(calendar.take(10 * 2000, 4).end, 10u * 2000 + 5);  // two cycles before the split, two after it
  uint64_t idle = 0;
  while (calendar.gaps() != 0) {
    const uint64_t frontier = calendar.frontier();
    const atalla_unit_span one = calendar.take(0, 1);
    CHECK(one.end <= frontier);
    ++idle;
  }
  CHECK_EQ(idle, 5u * UnitCalendar::kGaps - (1 + 1 + 1 + 4) - 4);  // taken above, and forgotten by the split
  CHECK_EQ(calendar.take(0, 7).end, 10 * kWork + 7);
}

Charge charge(uint64_t cycles, uint64_t sdma, uint64_t vector, uint64_t array) {
  return {.cycles = cycles, .sdma_cycles = sdma, .vector_cycles = vector, .array_cycles = array};
}

void test_placement() {
  Schedule schedule;
  // Alone: starts where it may and lasts for its own cycles.
  Placement one = schedule.place(1000, charge(500, 400, 20, 0));
  CHECK_EQ(one.start, 1000u);
  CHECK_EQ(one.end, 1500u);
  CHECK_EQ(one.sdma.end, 1400u);
  CHECK_EQ(one.array.begin, one.array.end);
  // Another unit: side by side.
  Placement two = schedule.place(1000, charge(450, 0, 0, 400));
  CHECK_EQ(two.end, 1450u);
  // The same unit: what the first left over, then after it.
  Placement three = schedule.place(900, charge(350, 300, 0, 0));
  CHECK_EQ(three.sdma.begin, 900u);
  CHECK_EQ(three.sdma.end, 1600u);  // 100 before, 200 after
  CHECK_EQ(three.end, 1600u);
}

// Work for different units does not depend on the order of submission; work for one unit is done at the same time.
void test_order() {
  std::vector<Charge> work = {charge(110, 100, 0, 0), charge(210, 0, 200, 0), charge(310, 0, 0, 300)};
  std::vector<int> order = {0, 1, 2};
  do {
    Schedule schedule;
    for (const int i : order) {
      CHECK_EQ(schedule.place(0, work[static_cast<size_t>(i)]).end, work[static_cast<size_t>(i)].cycles);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  std::mt19937 random(7);
  std::vector<uint64_t> lengths(50);
  for (uint64_t& n : lengths) n = 1 + random() % 1000;
  std::set<uint64_t> ends;
  for (int round = 0; round < 10; ++round) {
    std::shuffle(lengths.begin(), lengths.end(), random);
    Schedule schedule;
    uint64_t end = 0;
    for (const uint64_t n : lengths) end = std::max(end, schedule.place(0, charge(n, n, 0, 0)).end);
    ends.insert(end);
  }
  CHECK_EQ(ends.size(), 1u);
}

}  // namespace

int main() {
  for (uint32_t seed = 1; seed <= 40; ++seed) test_against_cycles(seed);
  test_bound();
  test_placement();
  test_order();
  return check_report();
}
