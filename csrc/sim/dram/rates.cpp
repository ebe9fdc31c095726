// SPDX-License-Identifier: BSD-3-Clause
#include "sim/dram/rates.h"

#include <algorithm>
#include <mutex>

#include "sim/dram/memory_system.h"

namespace atalla::sim {
namespace {

constexpr uint64_t kTiles = 128;     // long enough for several refreshes
constexpr uint64_t kCoreTiles = 32;  // of each core, at least
constexpr uint64_t kStarts = 8;      // a tile may begin anywhere in a row of the DRAM, and rows lie in any banks
constexpr uint64_t kAhead = 2;       // tiles by which an operand may be ahead of the others
constexpr uint64_t kShares = 32;     // of the largest stream; smaller ones do not matter
constexpr size_t kMostKnown = 1 << 12;

bool drifts(const atalla_tile_layout& layout) { return layout.waits != 0 && layout.order != ATALLA_TILES_IN_STEP; }

// The tiles of one operand, along the rows of a matrix. Each core has a part of its own, or reads all in turn.
struct Tiles {
  const TileStream& stream;
  uint64_t first = 0;    // address
  uint64_t apart = 0;    // bytes from the part of a core to that of the next
  uint64_t weight = 0;   // tiles per unit of progress
  uint64_t scatter = 0;  // bytes from a scattered tile to the next
  uint64_t ahead = 0;    // tiles by which a core is ahead of the one before it, where cores wait and then drift apart

  uint64_t address(uint64_t core, uint64_t tile) const {
    const uint64_t across = std::max<uint64_t>(1, stream.layout.pitch / stream.layout.row_bytes);
    const uint64_t part = first + (stream.shared ? 0 : core * apart);
    tile += core * ahead;
    if (stream.layout.order == ATALLA_TILES_SCATTERED) return part + tile * scatter;
    return part + tile / across * stream.layout.rows * stream.layout.pitch + tile % across * stream.layout.row_bytes;
  }
};

// Which tile comes next: that of the engine which is free first, if its operand is not too far ahead of the others. The
// cores run the same code side by side, so that tiles of one operand come for all of them at about the same time.
class Order {
 public:
  Order(std::span<const Tiles> tiles, uint64_t cores)
      : tiles_(tiles), cores_(cores), free_(2 * cores), moved_(cores * tiles.size()) {}

  struct Next {
    uint64_t core = 0;
    size_t operand = 0;
  };
  Next next() const {
    Next best;
    bool found = false;
    for (size_t k = 0; k < tiles_.size(); ++k) {
      for (uint64_t core = 0; core < cores_; ++core) {
        const Next here{core, k};
        if (!may_move(here)) continue;
        const uint64_t a = free(here), b = found ? free(best) : 0;
        if (!found || a < b || (a == b && is_behind(here, best))) best = here;
        found = true;
      }
    }
    return best;
  }
  uint64_t& free(Next at) { return free_[2 * at.core + tiles_[at.operand].stream.layout.engine]; }
  uint64_t free(Next at) const { return free_[2 * at.core + tiles_[at.operand].stream.layout.engine]; }
  uint64_t& moved(Next at) { return moved_[at.core * tiles_.size() + at.operand]; }

 private:
  uint64_t moved(Next at) const { return moved_[at.core * tiles_.size() + at.operand]; }
  bool is_behind(Next a, Next b) const {
    return moved(a) * tiles_[b.operand].weight < moved(b) * tiles_[a.operand].weight;
  }
  bool may_move(Next at) const {
    for (size_t k = 0; k < tiles_.size(); ++k)
      if (moved(at) * tiles_[k].weight > (moved({at.core, k}) + kAhead) * tiles_[at.operand].weight) return false;
    return true;
  }

  std::span<const Tiles> tiles_;
  uint64_t cores_;
  std::vector<uint64_t> free_;   // of each engine of each core, from when on
  std::vector<uint64_t> moved_;  // tiles, of each operand for each core
};

}  // namespace

BeatRate measure_rate(const ChipConfig& config, std::span<const TileStream> streams, uint64_t cores) {
  MemorySystem memory(config, std::nullopt);
  std::vector<Tiles> all;
  for (const TileStream& stream : streams) {
    // Neighbours in memory would share banks in step; operands, and the parts of cores, lie anywhere.
    const uint64_t row = config.dram.row_bytes, bytes = uint64_t{stream.layout.rows} * stream.layout.row_bytes;
    all.push_back({.stream = stream,
                   .first = all.size() * (uint64_t{1} << 24) + all.size() * (5 * row),
                   .apart = stream.apart != 0 ? stream.apart : (uint64_t{1} << 20) + 13 * row,
                   .weight = std::max<uint64_t>(1, stream.bytes * 4096 / bytes),
                   .scatter = 5 * row + bytes});
  }
  Order order(all, cores);
  uint64_t end = 0, beats = 0;
  const uint64_t count = std::max(kTiles, kCoreTiles * cores);
  for (uint64_t i = 0; i < count; ++i) {
    if (i % (count / kStarts) == 0)
      for (size_t k = 0; k < all.size(); ++k) {
        all[k].first += config.dram.row_bytes / kStarts + 3 * k * config.dram.row_bytes;
        if (all[k].stream.apart == 0) all[k].apart += 10 * config.dram.row_bytes;
        if (i != 0 && drifts(all[k].stream.layout)) ++all[k].ahead;
      }
    const Order::Next at = order.next();
    const atalla_tile_layout& layout = all[at.operand].stream.layout;
    const uint64_t address = all[at.operand].address(at.core, order.moved(at)++);
    const MemorySystem::Tile tile{address, layout.rows, layout.row_bytes, layout.pitch, all[at.operand].stream.writes};
    uint64_t& engine = order.free(at);
    engine = memory.move(at.core, tile, engine + config.sdma_setup_cycles).end;
    end = std::max(end, engine);
    beats += memory.beats_of(layout.rows, layout.row_bytes);
  }
  const DramBanks::Events events = memory.dram_events();
  const uint64_t picojoules = events.activates * config.dram.activate_pj + events.reads * config.dram.read_pj +
                              events.writes * config.dram.write_pj;
  return {end * 1000 / beats, picojoules * 1000 / beats};
}

size_t DramRates::Hash::operator()(const Key& key) const {
  uint64_t hash = key.size();
  for (const uint64_t word : key) hash = (hash ^ word) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
  return hash;
}

BeatRate DramRates::of(std::span<TileStream> streams, uint64_t cores) const {
  uint64_t most = 1;
  for (const TileStream& stream : streams) most = std::max(most, stream.bytes);
  Key key;
  key.reserve(1 + 4 * streams.size());
  key.push_back(cores);
  size_t count = 0;
  for (const TileStream& stream : streams) {
    const auto share = static_cast<uint64_t>(static_cast<unsigned __int128>(stream.bytes) * kShares / most);
    if (share == 0) continue;
    const bool dense = !stream.shared && stream.layout.order != ATALLA_TILES_SCATTERED &&
                       stream.layout.pitch == stream.layout.row_bytes;
    const uint64_t apart = cores > 1 && dense ? stream.bytes / cores : 0;
    streams[count] = stream;
    streams[count].bytes = share;
    streams[count++].apart = apart;
    key.insert(key.end(),
               {stream.layout.pitch, apart,
                uint64_t{stream.layout.row_bytes} << 32 | uint64_t{stream.layout.rows} << 16 | stream.layout.engine,
                share << 4 | (stream.layout.order == ATALLA_TILES_SCATTERED ? 8 : 0) | (drifts(stream.layout) ? 4 : 0) |
                    (stream.shared ? 2 : 0) | (stream.writes ? 1 : 0)});
  }
  {
    const std::lock_guard guard(lock_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  const BeatRate rate = measure_rate(config_, streams.first(count), cores);
  const std::lock_guard guard(lock_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_.emplace(std::move(key), rate);
  return rate;
}

}  // namespace atalla::sim
