// SPDX-License-Identifier: BSD-3-Clause
//
// The cycle model. A packet issues, in order, when its sources (RAW), its destinations (WAW) and its units are free and
// no SDMA transfer still moves what it touches. All arithmetic is in integers, so cycles are the same everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/device/config.h"
#include "sim/dram/memory_system.h"
#include "sim/isa/cache.h"
#include "sim/isa/issue.h"

namespace atalla::sim::isa {

// Why a packet waited. A register that is not ready counts for the unit that makes it.
enum class Stall : uint8_t {
  kResult,                            // + unit of the producer: RAW
  kOverwrite = kResult + kUnitCount,  // WAW
  kUnitBusy,
  kScratchpadRows,  // moved by a transfer, or just stored
  kDramBytes,
  kQueueFull,
  kBranch,
  kService,
  kBarrier,
  kInstructionFetch,
  kDataFetch,
  kCount,
};
inline constexpr int kStalls = static_cast<int>(Stall::kCount);

struct Transfer {
  uint64_t end = 0;
  uint64_t low = 0;  // first byte of DRAM
  uint64_t high = 0;
  uint32_t rows = 0;
  uint32_t row_bytes = 0;
  uint64_t pitch = 0;
  bool stores = false;  // to DRAM
  uint64_t issued = 0;
  uint64_t first_row = 0;   // of the scratchpads' rows
  uint64_t data_begin = 0;  // bytes move from this cycle to `end`
  uint32_t accesses = 0;    // of the scratchpad

  bool meets(const Transfer& other) const;
  // True if the engine takes a port of the scratchpad in cycle `t`: as soon as the bytes of an access have come.
  bool accesses_in(uint64_t t) const;
};

class Scoreboard {
 public:
  // Of core `core` of the chip; `memory` outlives the scoreboard. `has_peers`: other cores use it as well. Then
  // transfers wait for `start_transfer`, so that the memory sees those of all cores in the order of their cycles.
  void configure(const ChipConfig& config, uint32_t pad_count, uint32_t pad_rows, MemorySystem* memory, uint32_t core,
                 bool has_peers);

  // Lets packet `number` issue; `x` are the scalar registers, `places` the rows that it moves. False, and it has not
  // issued, if its cycle depends on a transfer that has not started. Allocates nothing.
  bool issue(const Issue& issue, const uint32_t* x, const uint32_t* places, uint32_t number) {
    if (waiting_ != 0 && !prepare(issue, x, number)) [[unlikely]]
      return false;
    const uint16_t* wait = issue.wait;
    uint64_t latest = later(later4(wait), later4(wait + 4));
    for (unsigned i = 2; i < issue.wait_groups; ++i) latest = later(latest, later4(wait + 4 * i));
    uint64_t t = later(next_, latest >> kUnitBits);
    for (unsigned i = 0; i < issue.units; ++i) t = later(t, unit_free_[issue.unit[i]]);
    if (t != next_) [[unlikely]]
      note_wait(issue, t, latest);
    RowTimes* rows[2];
    for (unsigned i = 0; i < issue.rows; ++i) {
      rows[i] = &rows_[places[i]];
      const uint64_t free = issue.row[i].store && rows[i]->read > rows[i]->written ? rows[i]->read : rows[i]->written;
      if (free > t) [[unlikely]] {
        stalls_[static_cast<int>(Stall::kScratchpadRows)] += free - t;
        t = free;
      }
    }
    if (issue.uses != 0) [[unlikely]]
      t = memory(issue, x, t);
    for (unsigned i = 0; i < issue.rows; ++i) {
      if (issue.row[i].store && rows[i]->written < t + store_cycles_) rows[i]->written = t + store_cycles_;
    }
    for (unsigned i = 0; i < issue.units; ++i) unit_free_[issue.unit[i]] = t + issue.occupancy[i];
    const auto set = [&](int i) { ready_[issue.result[i]] = (t << kUnitBits) + issue.ready[i]; };
    set(0), set(1), set(2);
    if (issue.results > 3) [[unlikely]]
      set(3), set(4);
    if (issue.needs_ports) [[unlikely]]
      pass_rows(issue, x, t);
    next_ = t + 1;
    return true;
  }
  // The cycle of the first transfer that waits; UINT64_MAX if none does.
  uint64_t next_transfer() const;
  void start_transfer();
  void taken_branch() { delay(branch_cycles_ - 1, Stall::kBranch); }
  void service() { delay(service_cycles_, Stall::kService); }
  // Nothing issues before cycle `t`.
  void wait_until(uint64_t t) {
    if (t > next_) delay(t - next_, Stall::kBarrier);
  }

  // Cycle after the last one in which anything works.
  uint64_t end() const;
  uint64_t next() const { return next_; }
  uint64_t stall(Stall reason) const { return stalls_[static_cast<int>(reason)]; }
  uint64_t bus_cycles() const { return bus_cycles_; }
  uint64_t engine_cycles(uint32_t sid) const { return engines_[sid].busy; }
  uint64_t instruction_bytes() const { return instructions_.bytes(); }
  uint64_t data_bytes() const { return data_.bytes(); }

 private:
  static constexpr uint64_t kUnknown = UINT64_MAX;  // the end of a transfer that has not started
  static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }
  uint64_t later4(const uint16_t* r) const {
    return later(later(ready_[r[0]], ready_[r[1]]), later(ready_[r[2]], ready_[r[3]]));
  }
  void note_wait(const Issue& issue, uint64_t t, uint64_t latest);
  uint64_t memory(const Issue& issue, const uint32_t* x, uint64_t t);
  bool prepare(const Issue& issue, const uint32_t* x, uint32_t number);
  void fetch_packet(uint32_t number);
  void fetch_words(const Issue& issue, const uint32_t* x);
  void pass_rows(const Issue& issue, const uint32_t* x, uint64_t t);
  uint64_t words(const MemoryUse& use, const uint32_t* x, uint64_t t);
  uint64_t tile(const MemoryUse& use, const uint32_t* x, uint64_t t);
  uint64_t after_transfers(const Transfer& wanted, uint64_t t, uint32_t except = kUnitCount) const;
  bool depends_on_waiting(const Issue& issue, const uint32_t* x) const;
  Transfer transfer_of(const MemoryUse& use, const uint32_t* x, uint32_t* sid) const;
  static Transfer words_of(const MemoryUse& use, const uint32_t* x);
  void start(uint32_t sid);
  void mark(const Transfer& transfer, uint64_t end);
  void delay(uint64_t cycles, Stall reason) {
    next_ += cycles;
    stalls_[static_cast<int>(reason)] += cycles;
  }

  uint64_t next_ = 0;
  uint64_t ready_[kRegisters + 1] = {};  // cycle << kUnitBits | unit that makes it
  uint64_t unit_free_[kUnitCount] = {};
  uint64_t stalls_[kStalls] = {};

  struct RowTimes {
    uint64_t written = 0;  // by a transfer or a store, until
    uint64_t read = 0;     // by a transfer
  };
  std::vector<RowTimes> rows_;
  struct Engine {
    std::vector<Transfer> queue;  // ring of the latest ones
    uint64_t count = 0;
    uint64_t started = 0;  // of them
    uint64_t free = 0;
    uint64_t busy = 0;
    uint64_t port_cycle = 0;  // in which the core's latest row passed
    uint64_t ports_used = 0;  // by the core, in that cycle
  };
  bool has_port(const Engine& engine, uint64_t t) const;

  std::vector<Engine> engines_;
  MemorySystem* memory_ = nullptr;
  uint32_t core_ = 0;
  bool has_peers_ = false;
  // Transfers that have not started; with kCaches, if a cache may miss.
  uint64_t waiting_ = 0;
  static constexpr uint64_t kCaches = uint64_t{1} << 63;
  Cache instructions_;
  Cache data_;
  uint64_t bus_cycles_ = 0;
  uint64_t transfers_end_ = 0;  // of all of them

  uint32_t pad_rows_ = 0;
  uint64_t branch_cycles_ = 1;
  uint64_t service_cycles_ = 0;
  uint64_t store_cycles_ = 1;
  uint64_t pad_ports_ = 0;
  uint64_t pad_banks_ = 1;
};

}  // namespace atalla::sim::isa
