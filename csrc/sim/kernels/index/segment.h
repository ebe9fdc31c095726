// SPDX-License-Identifier: BSD-3-Clause
//
// Consecutive segments of the middle dimension of [outer, n, inner], given by their lengths or by offsets.
#pragma once

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Where segment s of outer index o begins and ends.
struct Segments {
  const Launch& l;
  int numbers;
  bool offsets;
  int64_t count, per_outer;

  Segments(const Launch& launch, int numbers_operand)
      : l(launch), numbers(numbers_operand), offsets(SegmentReduceParameters::read(launch.desc).offsets) {
    per_outer = l.operand(numbers).sizes[1];
    count = offsets ? per_outer - 1 : per_outer;
  }
  int64_t number(int64_t i) const { return index_at(l, numbers, i); }
  // `sum`: where the segment before ended.
  void bounds(int64_t o, int64_t s, int64_t sum, int64_t* begin, int64_t* end) const {
    *begin = offsets ? number(o * per_outer + s) : sum;
    *end = offsets ? number(o * per_outer + s + 1) : sum + number(o * per_outer + s);
  }
};

// Operand `numbers` of dtype I32 or I64: segments that lie in [0, rows).
inline atalla_status check_numbers(const Launch& l, int numbers, int64_t rows) {
  const Segments segments(l, numbers);
  for (int64_t i = 0; i < l.operand(numbers).sizes[0]; ++i) {
    int64_t begin = 0, end = 0;
    for (int64_t s = 0; s < segments.count; ++s) {
      segments.bounds(i, s, end, &begin, &end);
      if (begin >= 0 && begin <= end && end <= rows) continue;
      return fail(l, ATALLA_ERR_FAULT_INDEX, "segment [{}, {}) is out of range for {} rows", begin, end, rows);
    }
  }
  return ATALLA_OK;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
