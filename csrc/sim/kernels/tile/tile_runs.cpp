// SPDX-License-Identifier: BSD-3-Clause
//
// Which values of a tile program count up by one: offsets of accesses, whose ends then tell that they are one piece.
#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int kMostPasses = 16;

bool is_integer(const TileValue& value) { return value.dtype == ATALLA_I32 || value.dtype == ATALLA_I64; }

}  // namespace

// Calls f with the values that a step writes.
template <class F>
void TileProgram::for_each_written(const TileStep& step, const F& f) const {
  const TileStepKind& kind = kTileSteps[static_cast<size_t>(step.op)];
  int64_t at = 0;
  for (int k = 0; k < kind.n_words; ++k) {
    const TileWord& word = kind.words[k];
    const bool written = word.kind == TileWordKind::kOut || word.kind == TileWordKind::kState;
    for (int64_t i = 0, n = step.count(word, at); i < n; ++i, ++at)
      if (written) f(step.words[at]);
  }
}

// True if the numbers that a step writes count up by one. A range does, and so do a copy and a conversion of one, and a
// sum of one and a single number.
bool TileProgram::counts_up(const TileStep& step) const {
  switch (step.op) {
    case TileOp::kRange:
      return true;
    case TileOp::kCopy: {
      const auto w = step.as<CopyStep>();
      return values_[w.source()].counts_up && values_[w.source()].dtype == values_[w.out()].dtype;
    }
    case TileOp::kConvert: {  // (to more bits: the ends tell whether the narrow numbers wrapped)
      const auto w = step.as<ConvertStep>();
      const TileValue& source = values_[w.source()];
      return source.counts_up && w.read_as() == source.dtype && values_[w.out()].size >= source.size;
    }
    case TileOp::kArithmetic: {
      const auto w = step.as<ArithmeticStep>();
      const TileValue &a = values_[w.a()], &b = values_[w.b()];
      return w.kind() == TileArithmetic::kAdd && ((a.counts_up && b.count == 1) || (b.counts_up && a.count == 1));
    }
    case TileOp::kStore:  // (which writes its value only if it computes it)
      return !step.as<StoreStep>().has_made();
    default:
      return false;
  }
}

// A value counts up if all steps that write it say so.
void TileProgram::mark_runs() {
  for (int64_t i = 0; i < n_values_; ++i) values_[i].counts_up = is_integer(values_[i]) && values_[i].count > 1;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    bool changed = false;
    for (int64_t i = 0; i < n_steps_; ++i) {
      if (counts_up(steps_[i])) continue;
      for_each_written(steps_[i], [&](int64_t id) {
        changed |= values_[id].counts_up;
        values_[id].counts_up = false;
      });
    }
    if (!changed) return;
  }
  for (int64_t i = 0; i < n_values_; ++i) values_[i].counts_up = false;
}

}  // namespace atalla::sim::ATALLA_ISA
