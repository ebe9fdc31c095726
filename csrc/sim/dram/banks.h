// SPDX-License-Identifier: BSD-3-Clause
//
// The bank-level model of DRAM: when the bytes of an SDMA tile have been read or written.
//
// A controller per channel takes requests in order into a window, and serves those first whose row is open. The model
// computes the time of each group of column accesses to one row instead of stepping through cycles.
// docs/concepts/dram.md explains it. All arithmetic is in integers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/dram/preset.h"

namespace atalla::sim {

class DramBanks {
 public:
  // `map` belongs to `preset`; `chip_hz` is the clock of the cycles that `move` takes and returns. Requests of one port
  // leave in order, preset.controller_request_cycles apart.
  DramBanks(const DramPreset& preset, AddressMap map, uint64_t chip_hz, uint64_t ports = 1);
  void reset();

  struct Span {
    uint64_t issued = 0;  // the last request has left the SDMA
    uint64_t end = 0;     // the last byte has passed the bus
  };
  // Since the reset.
  struct Events {
    uint64_t activates = 0;
    uint64_t reads = 0;  // column accesses
    uint64_t writes = 0;
  };
  const Events& events() const { return events_; }
  // Rows of `row_bytes` bytes, `pitch` bytes apart, whose first request leaves at cycle `start` at the earliest. Calls
  // are in the order in which the requests reach the controller.
  Span move(uint64_t address, uint64_t rows, uint64_t row_bytes, uint64_t pitch, bool writes, uint64_t start,
            uint64_t port = 0);

 private:
  static constexpr int64_t kNoRow = -1;
  static constexpr unsigned kFraction = 8;
  static constexpr uint64_t kWords = 64;  // of a calendar: 4,096 slots

  struct Place {
    uint64_t channel = 0;
    uint64_t bank = 0;
    int64_t row = 0;
    bool operator==(const Place&) const = default;
  };
  struct Bank {
    int64_t row = kNoRow;
    uint64_t used = 0;      // accesses since the row was opened
    uint64_t ready = 0;     // earliest activate
    uint64_t closable = 0;  // earliest precharge
    uint64_t column = 0;    // earliest column access
  };
  // Which slots of a resource are taken, from word `first` on.
  struct Calendar {
    std::array<uint64_t, kWords> words{};
    uint64_t first = 0;

    void advance(uint64_t word);
    bool holds(uint64_t slot) const { return slot / 64 + 2 < first + kWords; }
    uint64_t at(uint64_t slot) const {  // 64 slots from this one on
      const uint64_t low = words[slot / 64 % kWords], high = words[(slot / 64 + 1) % kWords];
      return slot % 64 == 0 ? low : low >> slot % 64 | high << (64 - slot % 64);
    }
    void take(uint64_t slot, uint64_t slots) {
      words[slot / 64 % kWords] |= slots << slot % 64;
      if (slot % 64 != 0) words[(slot / 64 + 1) % kWords] |= slots >> (64 - slot % 64);
    }
  };
  // Latest column accesses are 0 if there was none.
  struct Group {
    Calendar paths;  // of its column accesses, which are ccd_l apart
    uint64_t last_write = 0;
  };
  struct Activate {
    uint64_t at = 0;
    uint64_t group = 0;
  };
  struct Rank {
    std::array<Activate, 4> activates{};  // the latest ones
    uint64_t refresh = 0;                 // the next one
    Calendar bus;                         // its bursts
    uint64_t last_write = 0;
  };
  struct Waiting {
    uint64_t leaves = 0;
    uint64_t requests = 0;
  };
  // Requests that the controller has not served, by the cycle at which it does.
  struct Window {
    std::array<Waiting, 256> entries{};
    unsigned begin = 0;
    unsigned end = 0;
    uint64_t waiting = 0;  // requests

    uint64_t admit(uint64_t requests, uint64_t t, uint64_t most);
    void insert(uint64_t requests, uint64_t leaves);
  };
  struct Channel {
    std::vector<Bank> banks;
    std::vector<Group> groups;
    std::vector<Rank> ranks;
    Calendar bus;
    Window window;
    uint64_t last_read = 0;
    uint64_t last_write = 0;
  };

  void refresh(Channel& channel, uint64_t rank, uint64_t t);
  uint64_t activate(Rank& rank, uint64_t group, uint64_t t) const;
  uint64_t columns(Channel& channel, uint64_t group, uint64_t n, uint64_t t) const;
  uint64_t access(Channel& channel, const Place& place, uint64_t n, bool writes, uint64_t arrival);
  uint64_t serve(const Place& place, uint64_t requests, bool writes, uint64_t& issue);

  DramPreset preset_;
  AddressMap map_;
  uint64_t dram_ticks_ = 1;  // dram_ticks_ cycles of the DRAM take as long as chip_ticks_ of the chip
  uint64_t chip_ticks_ = 1;
  unsigned slot_shift_ = 0;      // log2 of the cycles of a calendar's slot: one burst on the data bus
  uint64_t group_slots_ = 1;     // slots of a group's calendar that an access takes
  uint64_t bus_pattern_ = 0;     // slots of the bus that accesses to one group take
  uint64_t most_accesses_ = 1;   // at a time
  uint64_t step_ = 0;            // between two requests, with kFraction binary places
  std::vector<uint64_t> issue_;  // of each port, when its next request may leave, likewise
  Events events_;
  std::vector<Channel> channels_;
};

// Thousandths of a chip cycle that a tile of `bytes` contiguous bytes takes in a long stream of reads, each of which
// starts when the one before has ended. `preset` has been checked.
uint64_t stream_millicycles(const DramPreset& preset, uint64_t chip_hz, uint64_t bytes);

// The energy of a DRAM: femtojoules per byte of such a stream, and microwatts at any time.
struct DramEnergy {
  uint64_t read_fj = 0;
  uint64_t write_fj = 0;
  uint64_t static_uw = 0;  // for standby and refresh
};

// Of a stream as above; `whole_bursts`: a memory that answers whole bursts of contiguous tiles, each in a row that is
// open from its first byte to its last, as the constant model has it.
DramEnergy stream_energy(const DramPreset& preset, uint64_t chip_hz, uint64_t bytes, bool whole_bursts);

}  // namespace atalla::sim
