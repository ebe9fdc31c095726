// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/scoreboard.h"

#include <algorithm>

#include "sim/abi/atalla_isa.h"

namespace atalla::sim::isa {
namespace {

// Rows i of the one and j of the other share a byte for some i, j. Exact for one pitch; bounding boxes otherwise.
bool rectangles_meet(const Transfer& p, const Transfer& q) {
  if (p.low > q.low) return rectangles_meet(q, p);
  const uint64_t pitch = p.rows == 1 ? q.pitch : p.pitch;
  if ((q.rows != 1 && q.pitch != pitch) || p.row_bytes > pitch || q.row_bytes > pitch) return true;
  const uint64_t rows = (q.low - p.low) / pitch;
  const uint64_t shift = (q.low - p.low) % pitch;
  // Row j of q begins `shift` bytes into row j + rows of p's raster.
  if (shift < p.row_bytes && rows < p.rows) return true;
  return shift + q.row_bytes > pitch && rows + 1 < p.rows;
}

}  // namespace

bool Transfer::meets(const Transfer& other) const {
  if (!stores && !other.stores) return false;
  return low < other.high && other.low < high && rectangles_meet(*this, other);
}

void Scoreboard::configure(const ChipConfig& config, uint32_t pad_count, uint32_t pad_rows, uint32_t dram) {
  pad_rows_ = pad_rows;
  rows_.assign(uint64_t{pad_count} * pad_rows, RowTimes{});
  engines_.assign(pad_count, Engine{});
  for (Engine& engine : engines_) engine.queue.resize(config.sdma_queue_depth);
  branch_cycles_ = config.scalar_branch_cycles;
  service_cycles_ = config.scalar_service_cycles;
  setup_cycles_ = dram == ATALLA_ISA_DRAM_IDEAL ? config.sdma_ideal_setup_cycles : config.sdma_setup_cycles;
  beat_millicycles_ = dram == ATALLA_ISA_DRAM_IDEAL      ? millicycles(config.sdma_ideal_beat_cycles)
                      : dram == ATALLA_ISA_DRAM_MEASURED ? millicycles(config.sdma_measured_beat_cycles)
                                                         : config.beat_millicycles;
  bus_bytes_ = config.bus_width_bytes;
  banks_.reset();
  if (dram == ATALLA_ISA_DRAM_SPECIFIED && config.dram_preset != kConstantDram) {
    AddressMap map;
    address_map(config.dram, config.dram_preset.c_str(), &map);  // checked when the configuration was read
    banks_.emplace(config.dram, std::move(map), config.chip_clock_hz);
  }
  store_cycles_ = config.vector_store_latency_cycles;
}

void Scoreboard::reset() {
  if (banks_) banks_->reset();
  next_ = bus_free_ = bus_cycles_ = transfers_end_ = 0;
  std::fill(std::begin(ready_), std::end(ready_), 0);
  std::fill(std::begin(unit_free_), std::end(unit_free_), 0);
  std::fill(std::begin(stalls_), std::end(stalls_), 0);
  std::fill(rows_.begin(), rows_.end(), RowTimes{});
  for (Engine& engine : engines_) {
    std::fill(engine.queue.begin(), engine.queue.end(), Transfer{});
    engine.count = engine.free = engine.busy = 0;
  }
}

// Charges the wait to what was ready last.
void Scoreboard::note_wait(const Issue& issue, uint64_t t, uint64_t latest) {
  Stall reason = Stall::kUnitBusy;
  if (latest >> kUnitBits == t) {
    const auto sources = issue.wait + issue.sources;
    const bool read = std::any_of(issue.wait, sources, [&](uint16_t r) { return ready_[r] == latest; });
    reason = read ? static_cast<Stall>(latest & ((1 << kUnitBits) - 1)) : Stall::kOverwrite;
  }
  stalls_[static_cast<int>(reason)] += t - next_;
}

uint64_t Scoreboard::memory(const Issue& issue, const uint32_t* x, uint64_t t) {
  // First all waits, so that the packet issues once; then the transfer that it starts.
  for (unsigned i = 0; i < issue.uses; ++i) {
    if (issue.use[i].access >= Access::kWordLoad && transfers_end_ > t) t = words(issue.use[i], x, t);
  }
  for (unsigned i = 0; i < issue.uses; ++i) {
    if (issue.use[i].access < Access::kWordLoad) t = tile(issue.use[i], x, t);
  }
  return t;
}

uint64_t Scoreboard::after_transfers(const Transfer& wanted, uint64_t t) const {
  for (const Engine& engine : engines_) {
    if (engine.free <= t) continue;
    for (const Transfer& transfer : engine.queue) {
      if (transfer.end > t && transfer.meets(wanted)) t = transfer.end;
    }
  }
  return t;
}

uint64_t Scoreboard::words(const MemoryUse& use, const uint32_t* x, uint64_t t) {
  Transfer wanted;
  wanted.low = x[use.a] + static_cast<uint32_t>(use.imm);
  wanted.low &= UINT32_MAX;
  wanted.high = wanted.low + use.bytes;
  wanted.rows = 1;
  wanted.row_bytes = use.bytes;
  wanted.pitch = use.bytes;
  wanted.stores = use.access == Access::kWordStore;
  const uint64_t free = after_transfers(wanted, t);
  stalls_[static_cast<int>(Stall::kDramBytes)] += free - t;
  return free;
}

// The transfer's end, if its first request leaves at `begin` or when the bus is free.
void Scoreboard::pass_bus(Transfer* transfer, uint64_t begin) {
  const uint64_t start = std::max(begin, bus_free_);
  if (banks_) {
    const DramBanks::Span span =
        banks_->move(transfer->low, transfer->rows, transfer->row_bytes, transfer->pitch, transfer->stores, start);
    transfer->end = span.end;
    bus_free_ = span.issued;
    bus_cycles_ += span.issued - start;
    return;
  }
  const uint64_t beats = transfer->rows * ((transfer->row_bytes + bus_bytes_ - 1) / bus_bytes_);
  const uint64_t moving = (beats * beat_millicycles_ + 999) / 1000;
  transfer->end = bus_free_ = start + moving;
  bus_cycles_ += moving;
}

uint64_t Scoreboard::tile(const MemoryUse& use, const uint32_t* x, uint64_t t) {
  const uint32_t meta = x[use.c];
  const uint32_t sid = meta >> 30;
  const uint32_t columns = (meta >> 20 & 31) + 1;
  const uint32_t length = (meta & 0xFFFFF) != 0 ? (meta & 0xFFFFF) + 1 : columns;
  Transfer transfer;
  transfer.rows = (meta >> 25 & 31) + 1;
  transfer.row_bytes = columns * 2;
  transfer.pitch = uint64_t{length} * 2;
  transfer.low = x[use.b];
  transfer.high = transfer.low + (transfer.rows - 1) * transfer.pitch + transfer.row_bytes;
  transfer.stores = use.access == Access::kTileStore;

  Engine& engine = engines_[sid];
  Transfer& place = engine.queue[engine.count % engine.queue.size()];
  if (place.end > t) {
    stalls_[static_cast<int>(Stall::kQueueFull)] += place.end - t;
    t = place.end;
  }
  // Transfers of one engine are in order; those of the others are waited for where they touch the same bytes.
  for (uint32_t i = 0; i < engines_.size(); ++i) {
    if (i == sid || engines_[i].free <= t) continue;
    for (const Transfer& other : engines_[i].queue) {
      if (other.end > t && other.meets(transfer)) {
        stalls_[static_cast<int>(Stall::kDramBytes)] += other.end - t;
        t = other.end;
      }
    }
  }
  const uint64_t begin = std::max(t, engine.free);
  pass_bus(&transfer, begin + setup_cycles_);
  engine.free = transfer.end;
  engine.busy += transfer.end - begin;
  ++engine.count;
  place = transfer;
  transfers_end_ = std::max(transfers_end_, transfer.end);
  const uint64_t first = uint64_t{sid} * pad_rows_ + (x[use.a] >> 6);
  for (uint64_t row = first; row < first + transfer.rows; ++row) {
    uint64_t& until = transfer.stores ? rows_[row].read : rows_[row].written;
    until = std::max(until, transfer.end);
  }
  return t;
}

uint64_t Scoreboard::end() const {
  uint64_t last = std::max(next_, transfers_end_);
  for (const uint64_t ready : ready_) last = std::max(last, ready >> kUnitBits);
  return last;
}

}  // namespace atalla::sim::isa
