// SPDX-License-Identifier: BSD-3-Clause
#include "sim/dram/rates.h"

#include <algorithm>
#include <mutex>

#include "sim/dram/memory_system.h"

namespace atalla::sim {
namespace {

constexpr uint64_t kTiles = 128;     // long enough for several refreshes
constexpr uint64_t kCoreTiles = 32;  // of each core, at least
constexpr uint64_t kStarts = 4;      // a tile may begin anywhere in a row of the DRAM
constexpr uint64_t kShares = 32;     // of the largest stream; smaller ones do not matter
constexpr size_t kMostKnown = 1 << 12;

// The tiles of one operand, along the rows of a matrix.
struct Tiles {
  const TileStream& stream;
  uint64_t first = 0;   // address
  uint64_t weight = 0;  // tiles per unit of progress
  uint64_t moved = 0;

  uint64_t address() const {
    const uint64_t across = std::max<uint64_t>(1, stream.layout.pitch / stream.layout.row_bytes);
    return first + moved / across * stream.layout.rows * stream.layout.pitch + moved % across * stream.layout.row_bytes;
  }
};

}  // namespace

uint64_t measure_rate(const ChipConfig& config, std::span<const TileStream> streams, uint64_t cores) {
  MemorySystem memory(config, std::nullopt);
  std::vector<Tiles> all;
  for (const TileStream& stream : streams) {
    // Neighbours in memory would share banks in step; operands lie anywhere.
    const uint64_t first = all.size() * (uint64_t{1} << 24) + all.size() * (5 * config.dram.row_bytes);
    all.push_back(
        {stream, first,
         std::max<uint64_t>(1, stream.bytes * 4096 / (uint64_t{stream.layout.rows} * stream.layout.row_bytes))});
  }
  std::vector<uint64_t> engines(2 * cores);  // free from then on
  uint64_t end = 0, beats = 0;
  const uint64_t count = std::max(kTiles, kCoreTiles * cores);
  for (uint64_t i = 0; i < count; ++i) {
    Tiles* next = &all.front();  // the one that is farthest behind its share
    for (Tiles& tiles : all)
      if ((tiles.moved + 1) * next->weight < (next->moved + 1) * tiles.weight) next = &tiles;
    if (i % (count / kStarts) == 0)
      for (Tiles& tiles : all) tiles.first += config.dram.row_bytes / kStarts;
    const atalla_tile_layout& layout = next->stream.layout;
    const uint64_t core = next->moved % cores;
    uint64_t& engine = engines[2 * core + layout.engine];
    const MemorySystem::Tile tile{next->address(), layout.rows, layout.row_bytes, layout.pitch, next->stream.writes};
    engine = memory.move(core, tile, engine + config.sdma_setup_cycles).end;
    end = std::max(end, engine);
    beats += memory.beats_of(layout.rows, layout.row_bytes);
    ++next->moved;
  }
  return end * 1000 / beats;
}

size_t DramRates::Hash::operator()(const Key& key) const {
  uint64_t hash = key.size();
  for (const uint64_t word : key) hash = (hash ^ word) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
  return hash;
}

uint64_t DramRates::of(std::span<TileStream> streams, uint64_t cores) const {
  uint64_t most = 1;
  for (const TileStream& stream : streams) most = std::max(most, stream.bytes);
  Key key{cores};
  size_t count = 0;
  for (const TileStream& stream : streams) {
    const auto share = static_cast<uint64_t>(static_cast<unsigned __int128>(stream.bytes) * kShares / most);
    if (share == 0) continue;
    streams[count] = stream;
    streams[count++].bytes = share;
    key.insert(key.end(),
               {stream.layout.pitch,
                uint64_t{stream.layout.row_bytes} << 32 | uint64_t{stream.layout.rows} << 16 | stream.layout.engine,
                share << 1 | (stream.writes ? 1 : 0)});
  }
  {
    const std::lock_guard guard(lock_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  const uint64_t rate = measure_rate(config_, streams.first(count), cores);
  const std::lock_guard guard(lock_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_.emplace(std::move(key), rate);
  return rate;
}

}  // namespace atalla::sim
