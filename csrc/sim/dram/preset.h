// SPDX-License-Identifier: BSD-3-Clause
//
// The parameters of a DRAM behind its controller: organization, timings, page policy, address mapping.
// presets/*.toml names each one with its unit and source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/abi/atalla.h"

namespace atalla::sim {

// Cycles are those of `clock_hz`, the DRAM's clock.
struct DramPreset {
  uint64_t clock_hz = 0;
  uint64_t channels = 0;
  uint64_t ranks = 0;
  uint64_t bank_groups = 0;
  uint64_t banks = 0;         // of a group
  uint64_t row_bytes = 0;     // of all devices of a rank
  uint64_t burst_bytes = 0;   // of one column access
  uint64_t burst_cycles = 0;  // on the data bus
  uint64_t cl = 0;
  uint64_t cwl = 0;
  uint64_t rcd = 0;
  uint64_t rp = 0;
  uint64_t ras = 0;
  uint64_t ccd_s = 0;
  uint64_t ccd_l = 0;
  uint64_t rrd_s = 0;
  uint64_t rrd_l = 0;
  uint64_t faw = 0;
  uint64_t rtp = 0;
  uint64_t wr = 0;
  uint64_t wtr_s = 0;
  uint64_t wtr_l = 0;
  uint64_t turnaround = 0;  // idle cycles of the data bus between bursts of different ranks or directions
  uint64_t rfc = 0;
  uint64_t refi = 0;
  bool closed_page = false;
  uint64_t row_accesses = 0;    // of an open row, after which a closed-page controller closes it
  uint64_t window = 0;          // requests among which the controller of a channel chooses
  uint64_t request_bytes = 0;   // of one request of the SDMA
  uint64_t request_cycles = 0;  // cycles of the chip's clock between two requests

  // In picojoules: opening and closing a row of a rank, a column access, a refresh of a rank. Microwatts of all ranks.
  uint64_t activate_pj = 0;
  uint64_t read_pj = 0;
  uint64_t write_pj = 0;
  uint64_t refresh_pj = 0;
  uint64_t standby_uw = 0;

  // Address bits from the highest to the lowest, above those of a burst: "row bank group rank column channel". A field
  // may be given in parts with their widths ("row column:5 bank group rank column:2 channel").
  std::string mapping;
};

// Which bits of an address select what: `bits(address >> shift)` of each part, at `place` of the result.
struct AddressField {
  unsigned shift = 0;
  uint64_t mask = 0;
  unsigned place = 0;
};

struct AddressMap {
  std::vector<AddressField> channel;
  std::vector<AddressField> bank;  // rank, then group, then bank within the group
  std::vector<AddressField> row;

  static uint64_t select(const std::vector<AddressField>& fields, uint64_t address) {
    uint64_t value = 0;
    for (const AddressField& f : fields) value |= (address >> f.shift & f.mask) << f.place;
    return value;
  }
};

// ATALLA_ERR_CONFIG, with `where` and the reason, if the mapping does not name every field with all of its bits.
atalla_status address_map(const DramPreset& preset, const char* where, AddressMap* map);

// Parses and checks a preset's text, like parse_chip_config.
atalla_status parse_dram_preset(std::string_view text, const char* where, DramPreset* preset);

// The preset of this name, or in the file of this path (a name with a slash or that ends in .toml).
atalla_status find_dram_preset(const std::string& name, DramPreset* preset);

}  // namespace atalla::sim
