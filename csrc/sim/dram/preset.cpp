// SPDX-License-Identifier: BSD-3-Clause
#include "sim/dram/preset.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cinttypes>
#include <cstdio>

#include "sim/device/config.h"
#include "sim/device/parameters.h"

namespace atalla::sim {
namespace {

constexpr uint64_t kMaxCycles = 1'000'000;
constexpr uint64_t kMostEnergy = 1'000'000'000;

constexpr IntegerField<DramPreset> kIntegers[] = {
#include "dram_integers.inc"
};

constexpr Limits kLimits[] = {
    {"clock.hz", 1'000'000, 100'000'000'000},
    {"organization.channels", 1, 64, Range::kPowerOfTwo},
    {"organization.ranks", 1, 8, Range::kPowerOfTwo},
    {"organization.bank_groups", 1, 16, Range::kPowerOfTwo},
    {"organization.banks", 1, 64, Range::kPowerOfTwo},
    {"organization.row_bytes", 64, 1 << 20, Range::kPowerOfTwo},
    {"organization.burst_bytes", 8, 1024, Range::kPowerOfTwo},
    {"timing.burst", 1, 64},
    {"timing.ccd_s", 1, 64},
    {"timing.ccd_l", 1, 64},
    {"timing.turnaround", 0, kMaxCycles},
    {"timing.refi", 1, 100 * kMaxCycles},
    {"controller.row_accesses", 1, 1 << 20},
    {"controller.window", 1, 128},
    {"controller.request_bytes", 1, 1024, Range::kPowerOfTwo},
    {"controller.request_cycles", 1, 1024},
    {"timing.", 1, kMaxCycles},
    {"energy.", 0, kMostEnergy},
};
static_assert(std::ranges::all_of(kIntegers, [](const auto& field) { return limits_of(field.key, kLimits); }));

struct Named {
  const char* name;
  const char* text;
};
constexpr Named kPresets[] = {
#include "dram_presets.inc"
};

unsigned log2_of(uint64_t n) { return static_cast<unsigned>(std::countr_zero(n)); }

// A field of a mapping: its name, its bits, and the place of its parts in what they select.
struct Field {
  const char* name;
  unsigned bits;
  std::vector<AddressField>* parts;
  unsigned place = 0;
  unsigned given = 0;
};

atalla_status bad(const char* where, const DramPreset& preset, const char* reason, std::string_view field) {
  return set_error(ATALLA_ERR_CONFIG,
                   "%s: controller.mapping is \"%s\": %s \"%.*s\"; expected row, bank, group, rank, column and channel "
                   "from the highest to the lowest bit, or parts of them like column:2",
                   where, preset.mapping.c_str(), reason, static_cast<int>(field.size()), field.data());
}

// Limits that two parameters set together. A file is refused at the line of the first one.
atalla_status check(const DramPreset& p, const ParameterReader& reader) {
  const struct {
    bool holds;
    const char* key;
    const char* rule;
    const char* other;
    uint64_t a, b;
  } rules[] = {
      {p.timing_ccd_s <= p.timing_ccd_l, "timing.ccd_s", "at most", "timing.ccd_l", p.timing_ccd_s, p.timing_ccd_l},
      {p.timing_burst <= p.timing_ccd_s, "timing.burst", "at most", "timing.ccd_s", p.timing_burst, p.timing_ccd_s},
      {p.timing_rrd_s <= p.timing_rrd_l, "timing.rrd_s", "at most", "timing.rrd_l", p.timing_rrd_s, p.timing_rrd_l},
      {p.timing_wtr_s <= p.timing_wtr_l, "timing.wtr_s", "at most", "timing.wtr_l", p.timing_wtr_s, p.timing_wtr_l},
      {p.timing_rrd_s <= p.timing_faw, "timing.rrd_s", "at most", "timing.faw", p.timing_rrd_s, p.timing_faw},
      {p.timing_rcd < p.timing_ras, "timing.rcd", "less than", "timing.ras", p.timing_rcd, p.timing_ras},
      {p.timing_rfc < p.timing_refi, "timing.rfc", "less than", "timing.refi", p.timing_rfc, p.timing_refi},
      {p.organization_burst_bytes <= p.organization_row_bytes, "organization.burst_bytes", "at most",
       "organization.row_bytes", p.organization_burst_bytes, p.organization_row_bytes},
      {p.controller_request_bytes <= p.organization_burst_bytes, "controller.request_bytes", "at most",
       "organization.burst_bytes", p.controller_request_bytes, p.organization_burst_bytes},
  };
  for (const auto& rule : rules) {
    if (rule.holds) continue;
    char reason[160];
    snprintf(reason, sizeof reason, "the value is %" PRIu64 "; expected %s %s, which is %" PRIu64, rule.a, rule.rule,
             rule.other, rule.b);
    return reader.fail(reader.line(rule.key), reason, rule.key);
  }
  return ATALLA_OK;
}

}  // namespace

atalla_status address_map(const DramPreset& preset, const char* where, AddressMap* map) {
  *map = {};
  std::vector<AddressField> columns;
  const unsigned bank_bits = log2_of(preset.organization_banks), group_bits = log2_of(preset.organization_bank_groups);
  Field fields[] = {{"row", 0, &map->row},
                    {"bank", bank_bits, &map->bank},
                    {"group", group_bits, &map->bank, bank_bits},
                    {"rank", log2_of(preset.organization_ranks), &map->bank, bank_bits + group_bits},
                    {"column", log2_of(preset.organization_row_bytes / preset.organization_burst_bytes), &columns},
                    {"channel", log2_of(preset.organization_channels), &map->channel}};
  // From the lowest bit on, so that parts of a field take its bits in order.
  unsigned shift = log2_of(preset.organization_burst_bytes);
  std::string_view rest = preset.mapping;
  while (!rest.empty()) {
    const size_t space = rest.find_last_of(' ');
    const std::string_view part = space == std::string_view::npos ? rest : rest.substr(space + 1);
    rest = space == std::string_view::npos ? std::string_view() : rest.substr(0, space);
    if (part.empty()) continue;
    const std::string_view name = part.substr(0, part.find(':'));
    Field* field = nullptr;
    for (Field& f : fields) {
      if (name == f.name) field = &f;
    }
    if (field == nullptr) return bad(where, preset, "unknown field", part);
    const bool is_row = field == &fields[0];
    unsigned bits = field->bits - field->given;
    if (name.size() != part.size()) {
      const char* end = part.data() + part.size();
      const auto parsed = std::from_chars(part.data() + name.size() + 1, end, bits);
      if (is_row || parsed.ec != std::errc{} || parsed.ptr != end || bits + field->given > field->bits)
        return bad(where, preset, "wrong width of", part);
    }
    if (is_row) {
      if (!rest.empty() && rest.find_first_not_of(' ') != std::string_view::npos)
        return bad(where, preset, "the row is not the first field:", part);
      map->row.push_back({shift, ~uint64_t{0}, 0});
      field->given = 1;
      break;
    }
    if (bits != 0) field->parts->push_back({shift, (uint64_t{1} << bits) - 1, field->place + field->given});
    field->given += bits;
    shift += bits;
  }
  for (const Field& field : fields) {
    const bool row = &field == &fields[0];
    if (row ? field.given == 0 : field.given != field.bits)
      return bad(where, preset, "bits are missing of", field.name);
  }
  return ATALLA_OK;
}

atalla_status parse_dram_preset(std::string_view text, const char* where, DramPreset* preset) {
  TomlDocument document;
  std::string error;
  if (!parse_toml(text, &document, &error)) return set_error(ATALLA_ERR_CONFIG, "%s: %s", where, error.c_str());
  static const TomlDocument* const units = units_of(kPresets[0].text);
  ParameterReader reader(document, where, units);
  if (const atalla_status status = reader.integers<DramPreset>(kIntegers, kLimits, preset)) return status;
  std::string page;
  if (const atalla_status status = reader.text("controller.page", 16, &page)) return status;
  if (page != "open" && page != "closed") {
    return set_error(ATALLA_ERR_CONFIG, "%s: controller.page is \"%s\"; expected \"open\" or \"closed\"", where,
                     page.c_str());
  }
  preset->closed_page = page == "closed";
  if (const atalla_status status = reader.text("controller.mapping", 200, &preset->mapping)) return status;
  if (const atalla_status status = reader.finish()) return status;
  if (const atalla_status status = check(*preset, reader)) return status;
  AddressMap map;
  return address_map(*preset, where, &map);
}

atalla_status find_dram_preset(const std::string& name, DramPreset* preset) {
  if (name.find('/') != std::string::npos || name.ends_with(".toml")) {
    std::string text;
    if (const atalla_status status = read_chip_file(name.c_str(), &text)) return status;
    return parse_dram_preset(text, name.c_str(), preset);
  }
  std::string names;
  for (const Named& known : kPresets) {
    if (name == known.name) return parse_dram_preset(known.text, known.name, preset);
    names += std::string(", ") + known.name;
  }
  return set_error(ATALLA_ERR_CONFIG, "dram.preset is \"%s\"; expected constant%s, or the path of a .toml file",
                   name.c_str(), names.c_str());
}

}  // namespace atalla::sim
