// SPDX-License-Identifier: BSD-3-Clause
//
// Finds rows of the array that can be computed together: sums side by side hide the latency of the host's adder.
// A row may wait for the last of its group when nothing in between writes what it reads, or reads or writes what it
// writes, or changes the weights. Groups lie between jumps. Who jumps into one finds fewer rows waiting at its end.
#include <algorithm>

#include "sim/isa/program.h"

namespace atalla::sim::isa {
namespace {

struct Vectors {
  uint16_t reads[4] = {};
  int count = 0;
  uint16_t written[2] = {};  // 0: none
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
      out->written[0] = op.d;  // a kept lane is one of a register that is written
      return true;
    case Micro::kGemm:
      for (uint16_t i = 0; i <= (op.c & 1); ++i) reads(op.a + i);
      for (uint16_t i = 0; i <= op.c >> 1; ++i) {
        reads(op.b + i);
        out->written[i] = op.d + i;
      }
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
      out->written[0] = op.d;
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
    for (const uint16_t written : vectors.written)
      if (written != 0) clash |= has(results, written) || (!gemm && has(sources, written));
    if (clash || (gemm && !group.empty() && group[0]->c != op.c)) close();
    if (!gemm) continue;
    group.push_back(&op);
    sources.insert(sources.end(), vectors.reads, vectors.reads + vectors.count);
    for (const uint16_t written : vectors.written)
      if (written != 0) results.push_back(written);
    if (group.size() == kMostRows) close();
  }
  close();
}

}  // namespace atalla::sim::isa
