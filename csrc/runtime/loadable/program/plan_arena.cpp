// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/plan_arena.h"

#include <algorithm>

#include "runtime/device/error.h"

namespace atalla::runtime::loadable {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 50;  // far beyond any DRAM: keeps sums exact

struct Piece {
  uint32_t storage;
  uint32_t first, last;
  uint64_t bytes;
  uint64_t offset = 0;
};

uint64_t aligned(uint64_t bytes) { return (bytes + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment; }

}  // namespace

ArenaPlan plan_arena(const View& view, uint32_t method) {
  Range range = view.methods[method].instructions;
  std::vector<Piece> pieces;
  ArenaPlan plan;
  for (uint32_t i = 0; i < view.storages.size(); ++i) {
    Storage s = view.storages[i];
    bool here = range.count > 0 && s.first_live >= range.first && s.last_live - range.first < range.count;
    if (s.space != Space::kArena || !here) continue;
    if (s.bytes == 0) {  // the file's offset, which is that of other sizes, may lie beyond this arena
      plan.offsets.emplace_back(i, 0);
      continue;
    }
    if (s.bytes > kMostBytes) throw Error(ATALLA_ERR_FORMAT, "a temporary of " + std::to_string(s.bytes) + " bytes");
    pieces.push_back({i, s.first_live, s.last_live, aligned(s.bytes)});
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.bytes > b.bytes; });
  std::vector<Piece> placed;  // by offset
  for (Piece piece : pieces) {
    for (const Piece& other : placed) {
      if (other.last < piece.first || piece.last < other.first) continue;
      if (piece.offset + piece.bytes <= other.offset) break;
      piece.offset = std::max(piece.offset, other.offset + other.bytes);
    }
    plan.bytes = std::max(plan.bytes, piece.offset + piece.bytes);
    if (plan.bytes > kMostBytes) throw Error(ATALLA_ERR_FORMAT, "an arena of more than 2^50 bytes");
    plan.offsets.emplace_back(piece.storage, piece.offset);
    auto at = std::upper_bound(placed.begin(), placed.end(), piece,
                               [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
    placed.insert(at, piece);
  }
  return plan;
}

}  // namespace atalla::runtime::loadable
