// SPDX-License-Identifier: BSD-3-Clause
//
// Which lines a cache holds: set-associative, the line of a set that was used longest ago leaves first.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/device/config.h"

namespace atalla::sim::isa {

class Cache {
 public:
  // A cache of no bytes holds everything. `move_cycles`: in which the memory moves a line.
  void configure(const CacheParameters& parameters, uint64_t move_cycles) {
    ideal_ = parameters.bytes == 0;
    shift_ = static_cast<unsigned>(std::countr_zero(parameters.line_bytes));
    ways_ = parameters.ways;
    lines_.assign(ideal_ ? 0 : parameters.bytes >> shift_, kNone);
    fill_cycles_ = parameters.miss_cycles + move_cycles;
  }

  bool ideal() const { return ideal_; }
  uint64_t line_of(uint64_t address) const { return address >> shift_; }
  // From a miss to the line.
  uint64_t fill_cycles() const { return fill_cycles_; }
  // Of the lines that it took.
  uint64_t bytes() const { return filled_ << shift_; }

  // The line is there afterwards, and the latest one used. True if it has to come.
  bool misses(uint64_t line) {
    uint64_t* const set = set_of(line);
    uint64_t* const found = std::find(set, set + ways_, line);
    const bool missing = found == set + ways_;
    std::rotate(set, missing ? found - 1 : found, missing ? found : found + 1);
    set[0] = line;
    filled_ += missing ? 1 : 0;
    return missing;
  }
  // Forgets the lines of the bytes [low, high).
  void drop(uint64_t low, uint64_t high) {
    for (uint64_t line = line_of(low); line <= line_of(high - 1); ++line) {
      uint64_t* const set = set_of(line);
      std::replace(set, set + ways_, line, kNone);
    }
  }

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  uint64_t* set_of(uint64_t line) { return &lines_[(line & (lines_.size() / ways_ - 1)) * ways_]; }

  bool ideal_ = true;
  unsigned shift_ = 0;
  uint64_t ways_ = 1;
  uint64_t fill_cycles_ = 0;
  uint64_t filled_ = 0;
  std::vector<uint64_t> lines_;  // set by set, the latest one used first
};

}  // namespace atalla::sim::isa
