// SPDX-License-Identifier: BSD-3-Clause
//
// Which values of a tile program count up by one: offsets of accesses, whose ends then tell that they are one piece.
#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int kMostPasses = 16;

bool is_integer(const TileValue& value) { return value.dtype == ATALLA_I32 || value.dtype == ATALLA_I64; }

}  // namespace

// Ranges do, and their copies, conversions, and sums with one number. A value does if all steps that write it say so.
void TileProgram::mark_runs() {
  for (int64_t i = 0; i < n_values_; ++i) values_[i].counts_up = is_integer(values_[i]) && values_[i].count > 1;
  const auto counts_up = [&](const TileStep& step) {
    const int64_t* w = step.words;
    switch (step.op) {
      case TileOp::kRange:
        return true;
      case TileOp::kCopy:
        return values_[w[1]].counts_up && values_[w[1]].dtype == values_[w[0]].dtype;
      case TileOp::kConvert:  // (to more bits: the ends tell whether the narrow numbers wrapped)
        return values_[w[1]].counts_up && w[2] == values_[w[1]].dtype && values_[w[0]].size >= values_[w[1]].size;
      case TileOp::kArithmetic: {
        if (w[3] != static_cast<int64_t>(TileArithmetic::kAdd)) return false;
        const TileValue &a = values_[w[1]], &b = values_[w[2]];
        return (a.counts_up && b.count == 1) || (b.counts_up && a.count == 1);
      }
      default:
        return false;
    }
  };
  for (int pass = 0; pass < kMostPasses; ++pass) {
    bool changed = false;
    const auto unmark = [&](int64_t id) {
      changed |= values_[id].counts_up;
      values_[id].counts_up = false;
    };
    for (int64_t i = 0; i < n_steps_; ++i) {
      const TileStep& step = steps_[i];
      switch (step.op) {
        case TileOp::kStore:
        case TileOp::kWhileLoop:
        case TileOp::kBranch:
        case TileOp::kRequire:
        case TileOp::kPrint:
          break;  // they write no integers
        case TileOp::kReduce:
        case TileOp::kScan:
          for (int64_t k = 0; k < 5 * step.words[2]; ++k) unmark(step.words[3 + k]);
          break;
        default:
          if (values_[step.words[0]].counts_up && !counts_up(step)) unmark(step.words[0]);
      }
    }
    if (!changed) return;
  }
  for (int64_t i = 0; i < n_values_; ++i) values_[i].counts_up = false;
}

}  // namespace atalla::sim::ATALLA_ISA
