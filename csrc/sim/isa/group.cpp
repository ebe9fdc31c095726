// SPDX-License-Identifier: BSD-3-Clause
//
// Finds rows of the array that can be computed together: four sums side by side hide the latency of the host's adder.
// A row may wait for the last of its group when nothing in between writes what it reads, or reads or writes what it
// writes, or changes the weights. Groups lie between jumps. Who jumps into one finds fewer rows waiting at its end.
#include <algorithm>

#include "sim/isa/program.h"

namespace atalla::sim::isa {
namespace {

constexpr size_t kGroup = 4;

struct Vectors {
  uint16_t reads[3] = {};
  int count = 0;
  uint16_t written = 0;  // 0: none
};

// The vector registers of a micro-op that is no jump. False for one that rows must not wait past.
bool vectors_of(const MicroOp& op, Vectors* out) {
  const auto reads = [&](uint16_t v) { out->reads[out->count++] = v; };
  switch (op.kind) {
    case Micro::kIllegal:
    case Micro::kPastEnd:
    case Micro::kPush:
      return false;
    case Micro::kAddVv:
    case Micro::kSubVv:
    case Micro::kMulVv:
    case Micro::kGemm:
      reads(op.b);
      [[fallthrough]];
    case Micro::kAddVs:
    case Micro::kSubVs:
    case Micro::kMulVs:
    case Micro::kExp:
    case Micro::kRsum:
    case Micro::kRmin:
    case Micro::kRmax:
      reads(op.a);
      out->written = op.d;  // a kept lane is one of a register that is written
      return true;
    case Micro::kCompareVv:
      reads(op.b);
      [[fallthrough]];
    case Micro::kCompareVs:
    case Micro::kLaneToScalar:
      reads(op.a);
      return true;
    case Micro::kRowLoad:
    case Micro::kRowLoadWhole:
      out->written = op.d;
      return true;
    case Micro::kRowStore:
      reads(op.d);
      return true;
    default:
      return op.kind < Micro::kBeq;
  }
}

}  // namespace

void Program::group_rows() {
  std::vector<MicroOp*> group;
  std::vector<uint16_t> sources;
  std::vector<uint16_t> results;
  const auto has = [](const std::vector<uint16_t>& all, uint16_t v) {
    return std::find(all.begin(), all.end(), v) != all.end();
  };
  const auto close = [&] {
    for (size_t i = 0; group.size() > 1 && i < group.size(); ++i) {
      group[i]->kind = i + 1 == group.size() ? Micro::kGemmGroup : Micro::kGemmLater;
    }
    group.clear();
    sources.clear();
    results.clear();
  };
  for (MicroOp& op : ops_) {
    Vectors vectors;
    if (!vectors_of(op, &vectors)) {
      close();
      continue;
    }
    const bool gemm = op.kind == Micro::kGemm;
    bool clash = false;
    for (int i = 0; i < vectors.count; ++i) clash |= has(results, vectors.reads[i]);
    // Within a group all inputs are read first, so that one row may write what an earlier one reads.
    if (vectors.written != 0) clash |= has(results, vectors.written) || (!gemm && has(sources, vectors.written));
    if (clash) close();
    if (!gemm) continue;
    group.push_back(&op);
    sources.insert(sources.end(), {op.a, op.b});
    results.push_back(op.d);
    if (group.size() == kGroup) close();
  }
  close();
}

}  // namespace atalla::sim::isa
