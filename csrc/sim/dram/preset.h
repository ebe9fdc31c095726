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
#include "dram_parameters.inc"  // the numbers of a preset, by section and name
  bool closed_page = false;

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
