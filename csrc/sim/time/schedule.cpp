// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/schedule.h"

namespace atalla::sim {

static_assert((UnitCalendar::kGaps & (UnitCalendar::kGaps - 1)) == 0);

uint32_t UnitCalendar::first_ending_after(uint64_t clock) {
  uint32_t low = 0;
  uint32_t high = count_;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (at(middle).end > clock) high = middle;
    else low = middle + 1;
  }
  return low;
}

atalla_unit_span UnitCalendar::take_early(uint64_t start, uint64_t busy) {
  const uint32_t first = first_ending_after(start);
  if (first == count_) {
    const uint64_t begin = frontier_;
    frontier_ += busy;
    return {begin, frontier_};
  }
  // Only the first gap can begin before `start`; that part of it stays.
  const uint64_t begin = std::max(at(first).begin, start);
  const bool head_stays = at(first).begin < begin;
  uint32_t i = first;
  uint64_t from = begin;
  while (i < count_) {
    from = std::max(at(i).begin, begin);
    const uint64_t room = at(i).end - from;
    if (room > busy) break;
    busy -= room;
    ++i;
    if (busy == 0) break;
  }
  atalla_unit_span span{begin, 0};
  const uint32_t used_up = i;  // gaps [first, used_up) are taken to their ends
  if (busy == 0) {
    span.end = at(used_up - 1).end;
  } else if (used_up == count_) {
    frontier_ += busy;
    span.end = frontier_;
  } else {
    span.end = from + busy;
    if (used_up == first && head_stays) {
      const Gap rest{span.end, at(first).end};
      at(first).end = begin;
      insert(first + 1, rest);
      return span;
    }
    at(used_up).begin = span.end;
  }
  if (used_up == first) return span;
  if (head_stays) at(first).end = begin;
  const uint32_t gone = first + (head_stays ? 1 : 0);
  erase(gone, used_up - gone);
  return span;
}

void UnitCalendar::insert(uint32_t i, Gap gap) {
  if (count_ == kGaps) {  // the earliest goes; it stands before i
    ++first_;
    --count_;
    --i;
  }
  // The shorter side moves.
  if (i < count_ / 2) {
    --first_;
    ++count_;
    for (uint32_t k = 0; k < i; ++k) at(k) = at(k + 1);
  } else {
    ++count_;
    for (uint32_t k = count_ - 1; k > i; --k) at(k) = at(k - 1);
  }
  at(i) = gap;
}

void UnitCalendar::erase(uint32_t i, uint32_t n) {
  if (n == 0) return;
  if (i < count_ - (i + n)) {
    for (uint32_t k = i; k > 0; --k) at(k - 1 + n) = at(k - 1);
    first_ += n;
  } else {
    for (uint32_t k = i; k + n < count_; ++k) at(k) = at(k + n);
  }
  count_ -= n;
}

void UnitCalendar::forget_before(uint64_t clock) {
  const uint32_t n = first_ending_after(clock);
  first_ += n;
  count_ -= n;
}

}  // namespace atalla::sim
