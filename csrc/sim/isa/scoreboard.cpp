// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/scoreboard.h"

#include <algorithm>

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

// Of n accesses, the last bytes of number i, from 1, come in cycle floor(i * cycles / n) of the transfer, from 1.
bool Transfer::accesses_in(uint64_t t) const {
  if (t < data_begin || t >= end) return false;
  const uint64_t cycles = end - data_begin, at = t - data_begin + 1;
  const uint64_t n = std::min<uint64_t>(accesses, cycles), i = (at * n + cycles - 1) / cycles;
  return i * cycles / n == at;
}

void Scoreboard::configure(const ChipConfig& config, uint32_t pad_count, uint32_t pad_rows, MemorySystem* memory,
                           uint32_t core, bool has_peers) {
  pad_rows_ = pad_rows;
  rows_.assign(uint64_t{pad_count} * pad_rows, RowTimes{});
  engines_.assign(pad_count, Engine{});
  for (Engine& engine : engines_) engine.queue.resize(config.sdma_queue_depth);
  branch_cycles_ = config.scalar_branch_cycles;
  service_cycles_ = config.scalar_service_cycles;
  memory_ = memory;
  core_ = core;
  has_peers_ = has_peers;
  store_cycles_ = config.vector_store_latency_cycles;
  pad_ports_ = config.scratchpad_ports;
  pad_banks_ = config.scratchpad_banks;
  const CacheParameters code = config.instruction_cache(), words = config.data_cache();
  instructions_.configure(code, memory->idle_cycles(core, code.line_bytes));
  data_.configure(words, memory->idle_cycles(core, words.line_bytes));
  waiting_ = instructions_.ideal() && data_.ideal() ? 0 : kCaches;
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

// True if a port is left for a row of the core in cycle `t`. Bytes from DRAM do not wait, so that the engine comes
// first.
bool Scoreboard::has_port(const Engine& engine, uint64_t t) const {
  const bool taken = engine.free > t && std::any_of(engine.queue.begin(), engine.queue.end(),
                                                    [&](const Transfer& x) { return x.accesses_in(t); });
  return (engine.port_cycle == t ? engine.ports_used : 0) + (taken ? 1 : 0) < pad_ports_;
}

// The rows of a packet that issued in cycle `t` pass after those of earlier packets, and are ready so much later.
void Scoreboard::pass_rows(const Issue& issue, const uint32_t* x, uint64_t t) {
  for (unsigned i = 0; i < issue.rows; ++i) {
    const RowUse& row = issue.row[i];
    Engine& engine = engines_[row.sid];
    uint64_t at = later(t, engine.port_cycle);
    while (!has_port(engine, at)) ++at;
    engine.ports_used = engine.port_cycle == at ? engine.ports_used + 1 : 1;
    engine.port_cycle = at;
    if (at == t) continue;
    uint64_t& written = rows_[row.place(x)].written;
    if (row.store) written = later(written, at + store_cycles_);
    else if (row.result < 4) ready_[issue.result[row.result]] += (at - t) << kUnitBits;
  }
}

// Before a packet issues, where lines or transfers may have to come first. False: a transfer has not started.
bool Scoreboard::prepare(const Issue& issue, const uint32_t* x, uint32_t number) {
  const bool caches = (waiting_ & kCaches) != 0;
  if (caches && !instructions_.ideal()) fetch_packet(number);
  if ((waiting_ & ~kCaches) != 0 && depends_on_waiting(issue, x)) return false;
  if (caches && !data_.ideal()) fetch_words(issue, x);
  return true;
}

// Nothing issues before the lines of a packet are there.
void Scoreboard::fetch_packet(uint32_t number) {
  const uint64_t first = uint64_t{number} * kPacketBytes, last = first + kPacketBytes - 1;
  for (uint64_t line = instructions_.line_of(first); line <= instructions_.line_of(last); ++line)
    if (instructions_.misses(line)) delay(instructions_.fill_cycles(), Stall::kInstructionFetch);
}

// A packet whose load misses asks for the line when its operands are ready, and issues when the line is there.
void Scoreboard::fetch_words(const Issue& issue, const uint32_t* x) {
  for (unsigned i = 0; i < issue.uses; ++i) {
    if (issue.use[i].access != Access::kWordLoad || !data_.misses(data_.line_of(words_of(issue.use[i], x).low)))
      continue;
    uint64_t latest = 0;
    for (unsigned k = 0; k < issue.wait_groups; ++k) latest = later(latest, later4(issue.wait + uint64_t{4} * k));
    const uint64_t t = later(next_, latest >> kUnitBits);
    if (t != next_) note_wait(issue, t, latest);
    next_ = words(issue.use[i], x, t);
    delay(data_.fill_cycles(), Stall::kDataFetch);
  }
}

// The first cycle from `t` on at which no transfer of the engines, but for one, touches the same bytes.
uint64_t Scoreboard::after_transfers(const Transfer& wanted, uint64_t t, uint32_t except) const {
  for (uint32_t i = 0; i < engines_.size(); ++i) {
    if (i == except || engines_[i].free <= t) continue;
    for (const Transfer& transfer : engines_[i].queue) {
      if (transfer.end > t && transfer.end != kUnknown && transfer.meets(wanted)) t = transfer.end;
    }
  }
  return t;
}

Transfer Scoreboard::words_of(const MemoryUse& use, const uint32_t* x) {
  Transfer wanted;
  wanted.low = x[use.a] + static_cast<uint32_t>(use.imm);
  wanted.low &= UINT32_MAX;
  wanted.high = wanted.low + use.bytes;
  wanted.rows = 1;
  wanted.row_bytes = use.bytes;
  wanted.pitch = use.bytes;
  wanted.stores = use.access == Access::kWordStore;
  return wanted;
}

uint64_t Scoreboard::words(const MemoryUse& use, const uint32_t* x, uint64_t t) {
  const uint64_t free = after_transfers(words_of(use, x), t);
  stalls_[static_cast<int>(Stall::kDramBytes)] += free - t;
  return free;
}

Transfer Scoreboard::transfer_of(const MemoryUse& use, const uint32_t* x, uint32_t* sid) const {
  const Tile tile(x[use.c]);
  *sid = tile.sid;
  Transfer transfer;
  transfer.rows = tile.rows;
  transfer.row_bytes = tile.columns * 2;
  transfer.pitch = uint64_t{tile.length} * 2;
  transfer.low = x[use.b];
  transfer.high = transfer.low + tile.dram_bytes;
  transfer.stores = use.access == Access::kTileStore;
  transfer.first_row = uint64_t{*sid} * pad_rows_ + (x[use.a] >> 6);
  transfer.accesses = static_cast<uint32_t>(scratchpad_accesses(pad_banks_, transfer.rows, transfer.row_bytes));
  return transfer;
}

uint64_t Scoreboard::tile(const MemoryUse& use, const uint32_t* x, uint64_t t) {
  uint32_t sid = 0;
  Transfer transfer = transfer_of(use, x, &sid);
  Engine& engine = engines_[sid];
  Transfer& place = engine.queue[engine.count % engine.queue.size()];
  if (place.end > t) {
    stalls_[static_cast<int>(Stall::kQueueFull)] += place.end - t;
    t = place.end;
  }
  // Transfers of one engine are in order; those of the others are waited for where they touch the same bytes.
  const uint64_t free = after_transfers(transfer, t, sid);
  stalls_[static_cast<int>(Stall::kDramBytes)] += free - t;
  t = free;
  if (transfer.stores && !data_.ideal()) {
    for (uint64_t row = 0; row < transfer.rows; ++row)
      data_.drop(transfer.low + row * transfer.pitch, transfer.low + row * transfer.pitch + transfer.row_bytes);
  }
  transfer.issued = later(t, engine.port_cycle);  // after rows that the core has stored
  transfer.end = kUnknown;
  place = transfer;
  ++engine.count;
  ++waiting_;
  if (has_peers_) mark(transfer, kUnknown);
  else start(sid);
  return t;
}

// The rows of a transfer are busy until `end`.
void Scoreboard::mark(const Transfer& transfer, uint64_t end) {
  for (uint64_t row = transfer.first_row; row < transfer.first_row + transfer.rows; ++row) {
    uint64_t& until = transfer.stores ? rows_[row].read : rows_[row].written;
    until = until == kUnknown ? end : std::max(until, end);
  }
}

// Starts the engine's next transfer.
void Scoreboard::start(uint32_t sid) {
  Engine& engine = engines_[sid];
  Transfer& transfer = engine.queue[engine.started++ % engine.queue.size()];
  --waiting_;
  const uint64_t begin = std::max(transfer.issued, engine.free);
  const MemorySystem::Passage passage =
      memory_->move(core_, {transfer.low, transfer.rows, transfer.row_bytes, transfer.pitch, transfer.stores},
                    begin + memory_->setup_cycles());
  transfer.end = engine.free = passage.end;
  transfer.data_begin = begin + memory_->setup_cycles();
  bus_cycles_ += passage.moving;
  engine.busy += passage.end - begin;
  transfers_end_ = std::max(transfers_end_, passage.end);
  mark(transfer, passage.end);
  for (uint64_t i = engine.started; i < engine.count; ++i)  // which may have rows in common with it
    mark(engine.queue[i % engine.queue.size()], kUnknown);
}

uint64_t Scoreboard::next_transfer() const {
  uint64_t first = UINT64_MAX;
  for (const Engine& engine : engines_) {
    if (engine.started == engine.count) continue;
    first = std::min(first, std::max(engine.queue[engine.started % engine.queue.size()].issued, engine.free));
  }
  return first;
}

void Scoreboard::start_transfer() {
  const uint64_t first = next_transfer();
  for (uint32_t sid = 0; sid < engines_.size(); ++sid) {
    const Engine& engine = engines_[sid];
    if (engine.started == engine.count) continue;
    if (std::max(engine.queue[engine.started % engine.queue.size()].issued, engine.free) == first) return start(sid);
  }
}

bool Scoreboard::depends_on_waiting(const Issue& issue, const uint32_t* x) const {
  for (unsigned i = 0; i < issue.rows; ++i) {
    const Engine& engine = engines_[issue.row[i].sid];
    if (issue.needs_ports && engine.started != engine.count) return true;
    const RowTimes& row = rows_[issue.row[i].place(x)];
    if (row.written == kUnknown || (issue.row[i].store && row.read == kUnknown)) return true;
  }
  for (unsigned i = 0; i < issue.uses; ++i) {
    const bool words = issue.use[i].access >= Access::kWordLoad;
    uint32_t sid = kUnitCount;  // no engine's
    const Transfer wanted = words ? words_of(issue.use[i], x) : transfer_of(issue.use[i], x, &sid);
    for (uint32_t k = 0; k < engines_.size(); ++k) {
      const Engine& engine = engines_[k];
      if (k == sid) {
        if (engine.count - engine.started == engine.queue.size()) return true;
        continue;
      }
      for (uint64_t n = engine.started; n < engine.count; ++n)
        if (engine.queue[n % engine.queue.size()].meets(wanted)) return true;
    }
  }
  return false;
}

uint64_t Scoreboard::end() const {
  uint64_t last = std::max(next_, transfers_end_);
  for (const uint64_t ready : ready_) last = std::max(last, ready >> kUnitBits);
  return last;
}

}  // namespace atalla::sim::isa
