// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/timing.h"

#include <algorithm>
#include <bit>

#include "sim/dram/memory_system.h"

namespace atalla::sim {
namespace {

constexpr uint64_t kMilli = 1000;
constexpr uint64_t kParts = 255;  // of an operand for which the core waits

// A kernel that counts absurd sizes (an estimate of shapes that no DRAM holds) must not wrap the clock.
constexpr uint64_t kMaxUnits = uint64_t{1} << 48;
constexpr uint64_t clip(uint64_t units) { return std::min(units, kMaxUnits); }

}  // namespace

Timing::Timing(const ChipConfig& config)
    : ports_(config.scratchpad_ports),
      banks_(config.scratchpad_banks),
      beat_millicycles_(config.beat_millicycles),
      setup_cycles_(config.sdma_setup_cycles),
      vector_occupancy_(config.vector_occupancy_cycles),
      vector_latency_(config.vector_load_latency_cycles + config.vector_latency_cycles +
                      config.vector_store_latency_cycles),
      exp_latency_(config.vector_exp_latency_cycles),
      copy_latency_(config.vector_load_latency_cycles + config.vector_store_latency_cycles),
      tile_rows_(config.sdma_tile_rows),
      queue_depth_(config.sdma_queue_depth),
      row_cycles_(config.array_row_cycles),
      weight_cycles_(config.array_weight_cycles),
      array_latency_(config.array_latency_cycles),
      overhead_(config.launch_overhead_cycles),
      cores_(config.core_count),
      core_start_(config.core_start_cycles),
      link_bytes_per_cycle_(config.link_bytes_per_cycle),
      link_latency_(config.link_latency_cycles) {
  const uint64_t tile_bytes = config.sdma_tile_rows * config.sdma_tile_columns * config.sdma_element_bytes;
  tile_bytes_mask_ = tile_bytes - 1;
  tile_bytes_shift_ = static_cast<unsigned>(std::countr_zero(tile_bytes));
  bus_bytes_mask_ = config.bus_width_bytes - 1;
  bus_bytes_shift_ = static_cast<unsigned>(std::countr_zero(config.bus_width_bytes));
  if (config.dram_preset != kConstantDram || config.network_topology != Topology::kBus) rates_.emplace(config);
  const auto lines = [&](const CacheParameters& cache) -> Lines {
    if (cache.bytes == 0) return {};
    const uint64_t cycles = MemorySystem(config, std::nullopt).idle_cycles(0, cache.line_bytes);
    return {false, cache.bytes, cache.line_bytes, cache.ways, cache.miss_cycles + cycles};
  };
  code_ = lines(config.instruction_cache());
  words_ = lines(config.data_cache());
}

uint64_t Timing::bus_cycles(uint64_t beats) const {
  const unsigned __int128 millicycles = static_cast<unsigned __int128>(beats) * beat_millicycles_;
  if (millicycles >> 63 == 0) [[likely]]
    return (static_cast<uint64_t>(millicycles) + kMilli - 1) / kMilli;
  return static_cast<uint64_t>((millicycles + kMilli - 1) / kMilli);
}

// Of all operands in DRAM, with the set-up of tiles.
void Timing::move_in_banks(const atalla_launch_work& work, uint32_t resident, uint64_t n, uint64_t beats,
                           Charge* charge) const {
  TileStream streams[ATALLA_MAX_OPERANDS];
  uint32_t count = 0;
  for (uint32_t k = 0; k < ATALLA_MAX_OPERANDS; ++k) {
    if (resident >> k & 1 || work.layout[k].row_bytes == 0 || work.operand_bytes[k] == 0) continue;
    const uint64_t bytes = clip(work.operand_bytes[k]) * (work.shared >> k & 1 ? n : 1);
    streams[count++] = {.layout = work.layout[k],
                        .bytes = bytes,
                        .writes = (work.written >> k & 1) != 0,
                        .shared = (work.shared >> k & 1) != 0};
  }
  if (count == 0) return;
  const BeatRate rate = rates_->of({streams, count}, n);
  const unsigned __int128 millicycles = static_cast<unsigned __int128>(beats) * rate.millicycles;
  charge->sdma_cycles =
      static_cast<uint64_t>(std::min<unsigned __int128>((millicycles + kMilli - 1) / kMilli, kMaxUnits));
  const unsigned __int128 femtojoules = static_cast<unsigned __int128>(beats) * rate.femtojoules;
  charge->dram_femtojoules = static_cast<uint64_t>(std::min<unsigned __int128>(femtojoules, UINT64_MAX));
}

// Of the core, between a kept operand and its place in a scratchpad: the rows of a tile all at once, of a smaller one 8
// by 8 and then by powers of two.
uint64_t Timing::copy_cycles(const atalla_tile_layout& layout, uint64_t bytes) const {
  const auto tile = [&](uint64_t rows) {
    const uint64_t groups = rows == tile_rows_ ? 1 : rows / 8 + static_cast<uint64_t>(std::popcount(rows % 8));
    return rows + groups * copy_latency_;
  };
  const bool known = layout.row_bytes != 0 && layout.rows != 0;
  const uint64_t row_bytes = known ? layout.row_bytes : (tile_bytes_mask_ + 1) / tile_rows_;
  const uint64_t tile_rows = known ? layout.rows : tile_rows_, rows = ceil_div(bytes, row_bytes);
  return rows / tile_rows * tile(tile_rows) + tile(rows % tile_rows);
}

// Double-buffered tiles: a step loads its tile while the one before is computed on and the one before that is stored.
uint64_t Timing::steps_of(uint64_t read_tiles, uint64_t written_tiles, uint64_t counted_tiles) {
  const uint64_t steps = std::max(read_tiles, written_tiles);
  if (counted_tiles == 0 || read_tiles + written_tiles == 0) return steps;
  const unsigned __int128 share = static_cast<unsigned __int128>(counted_tiles) * steps;
  return static_cast<uint64_t>(share / (read_tiles + written_tiles));
}

// An operand for which the core waits comes alone: no transfers of the other engine are beside it, whose latencies
// would hide this one's.
Timing::Waits Timing::waits_of(const atalla_launch_work& work, uint32_t resident, uint64_t n, uint64_t bytes,
                               uint64_t sdma) const {
  unsigned __int128 waited = 0, alone = 0;  // bytes, in parts of kParts; thousandths of cycles, likewise
  Waits found;
  for (uint32_t k = 0; k < ATALLA_MAX_OPERANDS; ++k) {
    const uint64_t part = work.layout[k].waits;
    if (resident >> k & 1 || work.operand_bytes[k] == 0) continue;
    found.last = std::max<uint64_t>(found.last, work.layout[k].last);
    if (part == 0) continue;
    const uint64_t moved = clip(work.operand_bytes[k]) * (work.shared >> k & 1 ? n : 1);
    waited += static_cast<unsigned __int128>(moved) * part;
    if (!rates_) continue;
    TileStream stream{.layout = work.layout[k],
                      .bytes = moved,
                      .writes = (work.written >> k & 1) != 0,
                      .shared = (work.shared >> k & 1) != 0};
    alone += static_cast<unsigned __int128>(beats_of(moved)) * part * rates_->of({&stream, 1}, n).millicycles;
  }
  found.moved = static_cast<uint64_t>(std::min<unsigned __int128>(bytes, waited / kParts) * sdma / bytes);
  found.cycles =
      std::max(found.moved, static_cast<uint64_t>(std::min<unsigned __int128>(kMaxUnits, alone / kParts / kMilli)));
  const auto tiles = tiles_of(static_cast<uint64_t>(std::min<unsigned __int128>(kMaxUnits, waited / kParts)));
  found.tile = found.cycles / std::max<uint64_t>(1, tiles);
  return found;
}

// The rows for the array come from scratchpad 0. With one port, each access of its engine that the core does not wait
// for delays it by a cycle, as often as the core takes a row. Two ports are enough: code takes about a row per cycle.
uint64_t Timing::port_cycles(const atalla_launch_work& work, uint32_t resident, uint64_t rows, uint64_t core) const {
  if (ports_ > 1 || core == 0) return 0;
  uint64_t accesses = 0;
  for (uint32_t k = 0; k < ATALLA_MAX_OPERANDS; ++k) {
    const atalla_tile_layout& layout = work.layout[k];
    const uint64_t tile = uint64_t{layout.rows} * layout.row_bytes;
    if (resident >> k & 1 || layout.engine != 0 || tile == 0) continue;
    const uint64_t tiles = clip(work.operand_bytes[k]) * (kParts - layout.waits) / kParts / tile;
    accesses += tiles * scratchpad_accesses(banks_, layout.rows, layout.row_bytes);
  }
  return static_cast<uint64_t>(static_cast<unsigned __int128>(accesses) * std::min(rows, core) / core);
}

// Each line of the code comes once. Of code that the cache does not hold, loops around
// the array do. The rest, which runs `packets` packets, pushes itself out where more lines want a set than it has ways.
uint64_t Timing::fetch_cycles(const atalla_launch_work& work, uint64_t packets) const {
  constexpr uint64_t kPacketBytes = 20, kDescriptorBytes = 192;  // with the entry in the table of calls
  uint64_t cycles = 0;
  if (!code_.ideal) {
    const uint64_t lines = ceil_div(work.code_bytes, code_.line_bytes), room = code_.bytes / code_.line_bytes;
    uint64_t fetched = lines;
    if (lines > room) {
      const uint64_t crowded = std::min(lines, (code_.ways + 1) * (lines - room));
      const unsigned __int128 passed = static_cast<unsigned __int128>(clip(packets * kPacketBytes)) * crowded;
      fetched = std::max(fetched, static_cast<uint64_t>(passed / lines / code_.line_bytes));
    }
    cycles += fetched * code_.fill_cycles;
  }
  if (!words_.ideal) cycles += ceil_div(kDescriptorBytes, words_.line_bytes) * words_.fill_cycles;
  return cycles;
}

// SDMA and core work side by side, except where the core waits; the slower one sets the pace, and a step of the other
// one stands outside its shadow. The core issues packets in order: what its units do, they do one after the other.
void Timing::overlap(Charge* charge, uint64_t packets, Waits waits, uint64_t steps, bool uses_exp) const {
  uint64_t latency = 0;
  if (charge->vector_cycles != 0) latency += vector_latency_ + (uses_exp ? exp_latency_ : 0);
  if (charge->array_cycles != 0) latency += array_latency_;
  const uint64_t core = charge->vector_cycles + charge->array_cycles + packets;
  const uint64_t beside = charge->sdma_cycles - waits.moved;
  const uint64_t fill = ceil_div(std::min(beside, core), std::max<uint64_t>(1, steps));
  const uint64_t last = core * waits.last / kParts;
  charge->cycles = overhead_ + waits.cycles + std::max(std::max(beside, core) + fill, beside + last) + latency;
}

Charge Timing::launch(const Cost& cost) const {
  const uint64_t read = clip(cost.bytes_read);
  const uint64_t written = clip(cost.bytes_written);
  const uint64_t read_tiles = tiles_of(read), written_tiles = tiles_of(written);
  const uint64_t tiles = cost.tiles != 0 ? clip(cost.tiles) : read_tiles + written_tiles;
  const uint64_t beats = cost.beats != 0 ? clip(cost.beats) : beats_of(read) + beats_of(written);
  Charge charge;
  charge.sdma_cycles = tiles * setup_cycles_ + bus_cycles(beats);
  // The exp unit stands beside the others: the longer queue of the two counts.
  charge.vector_cycles = std::max(clip(cost.vector_ops), clip(cost.exp_ops)) * vector_occupancy_;
  charge.array_cycles = clip(cost.array_rows) * row_cycles_ + clip(cost.weight_rows) * weight_cycles_;
  const uint64_t steps = steps_of(read_tiles, written_tiles, cost.tiles != 0 ? tiles : 0);
  overlap(&charge, clip(cost.packets), {}, steps, cost.exp_ops != 0);
  return charge;
}

Charge Timing::launch(const atalla_launch_work& work, uint32_t resident, uint64_t cores, uint64_t* read,
                      uint64_t* written) const {
  const uint64_t all_read = clip(work.bytes_read), all_written = clip(work.bytes_written);
  const uint64_t n = std::clamp<uint64_t>(cores, 1, std::max<uint64_t>(1, work.parts));
  // Of DRAM: what does not lie in a scratchpad, and what every further core reads again.
  uint64_t reads = work.bytes_read, writes = work.bytes_written, taking = 0, giving = 0;  // by the core
  for (uint32_t k = 0; k < ATALLA_MAX_OPERANDS; ++k) {
    if (!(resident >> k & 1)) continue;
    const bool result = (work.written >> k & 1) != 0;
    uint64_t& copying = result ? giving : taking;
    copying = clip(copying + copy_cycles(work.layout[k], clip(work.operand_bytes[k])));
    (result ? writes : reads) -= work.operand_bytes[k];
  }
  reads = clip(reads);
  writes = clip(writes);
  for (uint32_t k = 0; n > 1 && k < ATALLA_MAX_OPERANDS; ++k)
    if ((work.shared & ~resident) >> k & 1) reads = clip(reads + (n - 1) * clip(work.operand_bytes[k]));
  *read = reads;
  *written = writes;
  const uint64_t moved_tiles = tiles_of(reads) + tiles_of(writes);
  const uint64_t all_tiles = tiles_of(all_read) + tiles_of(all_written);
  uint64_t tiles = moved_tiles;
  if (work.tiles != 0 && all_tiles != 0) {
    const unsigned __int128 share = static_cast<unsigned __int128>(clip(work.tiles)) * moved_tiles;
    tiles = static_cast<uint64_t>((share + all_tiles - 1) / all_tiles);
  }
  uint64_t beats = beats_of(reads) + beats_of(writes);
  if (work.beats != 0 && all_tiles != 0) {
    const unsigned __int128 share = static_cast<unsigned __int128>(clip(work.beats)) * moved_tiles;
    beats = static_cast<uint64_t>((share + all_tiles - 1) / all_tiles);
  }
  // The busiest core's parts of the whole.
  const uint64_t busiest = ceil_div(work.parts, n);
  const auto share = [&](uint64_t amount) {
    const unsigned __int128 product = static_cast<unsigned __int128>(amount) * busiest;
    return static_cast<uint64_t>((product + work.parts - 1) / work.parts);
  };
  Charge charge;
  if (rates_) {
    move_in_banks(work, resident, n, beats, &charge);
  } else {  // one bus: a core's engine sets up a tile while the bus serves the others
    const uint64_t bus = bus_cycles(beats);
    charge.sdma_cycles = std::max(bus, ceil_div(tiles * setup_cycles_ + bus, n));
  }
  charge.vector_cycles = share(std::max(clip(work.vector_ops), clip(work.exp_ops))) * vector_occupancy_;
  charge.array_cycles = share(clip(work.array_rows)) * row_cycles_ + share(clip(work.weight_rows)) * weight_cycles_;
  // Tiles in a scratchpad are computed on one after the other, too.
  const uint64_t steps = steps_of(tiles_of(all_read), tiles_of(all_written), work.tiles != 0 ? clip(work.tiles) : 0);
  const Waits waits = waits_of(work, resident, n, std::max<uint64_t>(1, reads + writes), charge.sdma_cycles);
  // The core takes kept operands while the last tile for which it waits comes.
  const uint64_t packets = share(clip(work.packets + giving)) + share(taking) - std::min(share(taking), waits.tile);
  const uint64_t rows = share(clip(work.array_rows)), core = charge.vector_cycles + charge.array_cycles + packets;
  overlap(&charge, packets + ceil_div(port_cycles(work, resident, rows, core), n), waits, share(steps),
          work.exp_ops != 0);
  // A third of the code runs before the SDMA engines have work; then they move what they have queued.
  const uint64_t fetch = fetch_cycles(work, share(std::max(clip(work.vector_ops), clip(work.exp_ops))) + packets);
  const uint64_t slack = charge.sdma_cycles > core ? charge.sdma_cycles - core : 0;
  const uint64_t queued = queue_depth_ * (charge.sdma_cycles / std::max<uint64_t>(1, tiles));
  charge.cycles += fetch - std::min({fetch - fetch / 3, slack, queued});
  charge.cycles += (n - 1) * core_start_;
  return charge;
}

Charge Timing::copy(uint64_t row_bytes, uint64_t rows, bool reads, bool writes) const {
  Charge charge;
  if (row_bytes == 0 || rows == 0) return charge;
  const uint64_t directions = (reads ? 1u : 0u) + (writes ? 1u : 0u);
  const uint64_t bytes = clip(row_bytes);
  const uint64_t beats = ((bytes + bus_bytes_mask_) >> bus_bytes_shift_) * std::min(rows, kMaxUnits / bytes + 1);
  const uint64_t total = bytes * std::min(rows, kMaxUnits / bytes + 1);
  const uint64_t tiles = (total + tile_bytes_mask_) >> tile_bytes_shift_;
  charge.sdma_cycles = directions * (tiles * setup_cycles_ + bus_cycles(beats));
  charge.cycles = overhead_ + charge.sdma_cycles;
  return charge;
}

Charge Timing::link(uint64_t bytes, uint64_t messages, bool reads, bool writes) const {
  Charge charge = copy(bytes, messages, reads, writes);
  const unsigned __int128 each = link_latency_ + ceil_div(clip(bytes), link_bytes_per_cycle_);
  charge.link_cycles = static_cast<uint64_t>(std::min<unsigned __int128>(each * messages, kMaxUnits));
  charge.cycles = messages == 0 ? 0 : overhead_ + std::max(charge.link_cycles, charge.sdma_cycles);
  return charge;
}

}  // namespace atalla::sim
