// SPDX-License-Identifier: BSD-3-Clause
#include "sim/dram/banks.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace atalla::sim {
namespace {

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
constexpr uint64_t low_bits(uint64_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

}  // namespace

// Forgets what lies before `word`, which makes room behind the end.
void DramBanks::Calendar::advance(uint64_t word) {
  const uint64_t gone = std::min(word - first, kWords);
  for (uint64_t i = 0; i < gone; ++i) words[(first + i) % kWords] = 0;
  first = word;
}

DramBanks::DramBanks(const DramPreset& preset, AddressMap map, uint64_t chip_hz, uint64_t ports)
    : preset_(preset),
      map_(std::move(map)),
      slot_shift_(static_cast<unsigned>(std::bit_width(std::max(preset.timing_ccd_s, preset.timing_burst) - 1))),
      issue_(ports) {
  const uint64_t common = std::gcd(preset.clock_hz, chip_hz);
  dram_ticks_ = preset.clock_hz / common;
  chip_ticks_ = chip_hz / common;
  step_ = (preset.controller_request_cycles * dram_ticks_ << kFraction) / chip_ticks_;
  group_slots_ = ceil_div(preset.timing_ccd_l, uint64_t{1} << slot_shift_);
  most_accesses_ =
      std::min(std::max<uint64_t>(1, 64 / group_slots_), std::max<uint64_t>(1, preset.controller_window / 8));
  for (uint64_t i = 0; i < most_accesses_; ++i) bus_pattern_ |= uint64_t{1} << i * group_slots_;
  reset();
}

void DramBanks::reset() {
  Channel channel;
  channel.ranks.resize(preset_.organization_ranks);
  for (Rank& rank : channel.ranks) rank.refresh = preset_.timing_refi;
  channel.groups.assign(preset_.organization_ranks * preset_.organization_bank_groups, Group{});
  channel.banks.assign(channel.groups.size() * preset_.organization_banks, Bank{});
  channels_.assign(preset_.organization_channels, channel);
  std::fill(issue_.begin(), issue_.end(), 0);
  events_ = {};
}

// The cycle at which there is room for `requests` more, `t` at the earliest.
uint64_t DramBanks::Window::admit(uint64_t requests, uint64_t t, uint64_t most) {
  while (begin != end && (entries[begin].leaves <= t || waiting + requests > most)) {
    t = std::max(t, entries[begin].leaves);
    waiting -= entries[begin++].requests;
  }
  return t;
}

void DramBanks::Window::insert(uint64_t requests, uint64_t leaves) {
  if (end == entries.size()) {
    std::copy(entries.begin() + begin, entries.end(), entries.begin());
    end -= begin;
    begin = 0;
  }
  unsigned place = end++;
  for (; place > begin && entries[place - 1].leaves > leaves; --place) entries[place] = entries[place - 1];
  entries[place] = {leaves, requests};
  waiting += requests;
}

// Refreshes of the rank that are due at `t`. It waits until the rank's banks can close.
void DramBanks::refresh(Channel& channel, uint64_t rank, uint64_t t) {
  uint64_t& next = channel.ranks[rank].refresh;
  if (t < next) return;
  const uint64_t due = (t - next) / preset_.timing_refi + 1;
  uint64_t begin = next + (due - 1) * preset_.timing_refi;
  next += due * preset_.timing_refi;
  const uint64_t count = preset_.organization_bank_groups * preset_.organization_banks;
  Bank* const banks = &channel.banks[rank * count];
  for (uint64_t i = 0; i < count; ++i)
    begin = std::max(begin, banks[i].row != kNoRow ? banks[i].closable + preset_.timing_rp : banks[i].ready);
  for (uint64_t i = 0; i < count; ++i) {
    banks[i].row = kNoRow;
    banks[i].ready = std::max(banks[i].ready, begin + preset_.timing_rfc);
  }
}

// The first cycle from `t` on at which the rank may open a row in this group. Rows open out of order.
uint64_t DramBanks::activate(Rank& rank, uint64_t group, uint64_t t) const {
  auto& acts = rank.activates;  // sorted; a fifth one within faw of the first has to wait
  if (t < acts[3].at + preset_.timing_rrd_l || t < acts[0].at + preset_.timing_faw) [[unlikely]] {
    for (unsigned i = 0; i < acts.size(); ++i) {
      const uint64_t gap = acts[i].group == group ? preset_.timing_rrd_l : preset_.timing_rrd_s;
      if (t < acts[i].at + gap && acts[i].at < t + gap) t = acts[i].at + gap;
    }
    if (t >= acts[3].at) t = std::max(t, acts[0].at + preset_.timing_faw);
  }
  if (t < acts[0].at) return t;
  unsigned place = 0;
  for (; place + 1 < acts.size() && acts[place + 1].at < t; ++place) acts[place] = acts[place + 1];
  acts[place] = {t, group};
  return t;
}

// The first cycle from `t` on at which the group and the data bus are free for n column accesses.
uint64_t DramBanks::columns(Channel& channel, uint64_t group, uint64_t n, uint64_t t) const {
  Calendar& paths = channel.groups[group].paths;
  Calendar& own = channel.ranks[group / preset_.organization_bank_groups].bus;
  const uint64_t path = low_bits(n * group_slots_), bus = bus_pattern_ & path;
  uint64_t slot = t >> slot_shift_;
  if (!channel.bus.holds(slot)) return t;  // more than a calendar ahead: nothing can meet it there
  for (;;) {
    if (const uint64_t taken = paths.at(slot) & path) slot += static_cast<uint64_t>(64 - std::countl_zero(taken));
    else if (channel.bus.at(slot) & bus) ++slot;
    else break;
  }
  // Bursts of another rank beside its own cost the bus a turnaround.
  const uint64_t others = channel.bus.at(slot - 1) & ~own.at(slot - 1);
  const uint64_t beside = (others | others >> 2) & bus;
  const uint64_t switches = beside == 0 ? 0 : static_cast<uint64_t>(std::popcount(beside));
  paths.take(slot, path);
  channel.bus.take(slot, bus);
  own.take(slot, bus);
  return std::max(t, slot << slot_shift_) + switches * preset_.timing_turnaround;
}

// The cycle of the last of n column accesses to the row.
uint64_t DramBanks::access(Channel& channel, const Place& place, uint64_t n, bool writes, uint64_t arrival) {
  Bank& bank = channel.banks[place.bank];
  const uint64_t group = place.bank / preset_.organization_banks, of_rank = group / preset_.organization_bank_groups;
  Rank& rank = channel.ranks[of_rank];
  refresh(channel, of_rank, std::max(arrival, bank.row == place.row ? bank.column : bank.ready));
  if (bank.row != place.row) {
    if (bank.row != kNoRow) bank.ready = std::max(bank.ready, std::max(arrival, bank.closable) + preset_.timing_rp);
    const uint64_t t = activate(rank, group, std::max(arrival, bank.ready));
    ++events_.activates;
    bank = {.row = place.row,
            .used = 0,
            .ready = t + preset_.timing_ras + preset_.timing_rp,
            .closable = t + preset_.timing_ras,
            .column = t + preset_.timing_rcd};
  }
  uint64_t t = std::max(arrival, bank.column);
  if (writes && channel.last_read != 0) {
    t = std::max(t, channel.last_read + preset_.timing_cl + preset_.timing_burst + preset_.timing_turnaround -
                        preset_.timing_cwl);
  } else if (!writes && channel.last_write != 0) {
    const uint64_t data = preset_.timing_cwl + preset_.timing_burst;
    t = std::max(t, channel.last_write + data + preset_.timing_turnaround - std::min(preset_.timing_cl, data));
    if (rank.last_write != 0) t = std::max(t, rank.last_write + data + preset_.timing_wtr_s);
    if (channel.groups[group].last_write != 0)
      t = std::max(t, channel.groups[group].last_write + data + preset_.timing_wtr_l);
  }
  const uint64_t last = columns(channel, group, n, t) + (n - 1) * preset_.timing_ccd_l;
  bank.column = last + preset_.timing_ccd_l;
  const uint64_t recovery = writes ? preset_.timing_cwl + preset_.timing_burst + preset_.timing_wr : preset_.timing_rtp;
  bank.closable = std::max(bank.closable, last + recovery);
  bank.used += n;
  (writes ? events_.writes : events_.reads) += n;
  if (preset_.closed_page && bank.used >= preset_.controller_row_accesses) {
    bank.row = kNoRow;
    bank.ready = std::max(bank.ready, bank.closable + preset_.timing_rp);
  }
  if (writes) {
    for (uint64_t* latest : {&channel.last_write, &rank.last_write, &channel.groups[group].last_write})
      *latest = std::max(*latest, last);
  } else {
    channel.last_read = std::max(channel.last_read, last);
  }
  return last;
}

// Requests to one row of a bank, as many at a time as the controller serves before it closes the row.
uint64_t DramBanks::serve(const Place& place, uint64_t requests, bool writes, uint64_t& issue) {
  Channel& channel = channels_[place.channel];
  const Bank& bank = channel.banks[place.bank];
  uint64_t end = 0;
  while (requests != 0) {
    uint64_t n = std::min(requests, most_accesses_);
    if (preset_.closed_page) n = std::min(n, preset_.controller_row_accesses - (bank.row == place.row ? bank.used : 0));
    // Another port may have moved the calendars on: they remember no slot before their first one.
    const uint64_t remembered = channel.bus.first << 6 << slot_shift_;
    const uint64_t arrival =
        channel.window.admit(n, std::max(issue >> kFraction, remembered), preset_.controller_window);
    issue = std::max(issue, arrival << kFraction) + n * step_;
    const uint64_t word = arrival >> slot_shift_ >> 6;
    if (word > channel.bus.first + 1) {
      channel.bus.advance(word - 1);
      for (Group& group : channel.groups) group.paths.advance(word - 1);
      for (Rank& rank : channel.ranks) rank.bus.advance(word - 1);
    }
    const uint64_t leaves = std::max(access(channel, place, n, writes, arrival), (issue - step_) >> kFraction);
    channel.window.insert(n, leaves);
    end = std::max(end, leaves);
    requests -= n;
  }
  return end;
}

DramBanks::Span DramBanks::move(uint64_t address, uint64_t rows, uint64_t row_bytes, uint64_t pitch, bool writes,
                                uint64_t start, uint64_t port) {
  uint64_t& issue = issue_[port];
  issue = std::max(issue, (start * dram_ticks_ / chip_ticks_) << kFraction);
  const uint64_t mask = preset_.controller_request_bytes - 1;
  const unsigned request_shift = static_cast<unsigned>(std::countr_zero(preset_.controller_request_bytes));
  Place place;
  uint64_t requests = 0, last = 0;
  for (uint64_t r = 0; r < rows; ++r, address += pitch) {
    const uint64_t end = (address + row_bytes + mask) & ~mask;
    for (uint64_t at = address & ~mask; at < end;) {
      const uint64_t next = std::min(end, (at | (preset_.organization_burst_bytes - 1)) + 1);
      const Place here{AddressMap::select(map_.channel, at), AddressMap::select(map_.bank, at),
                       static_cast<int64_t>(AddressMap::select(map_.row, at))};
      if (requests != 0 && !(here == place)) {
        last = std::max(last, serve(place, requests, writes, issue));
        requests = 0;
      }
      place = here;
      requests += (next - at) >> request_shift;
      at = next;
    }
  }
  if (requests != 0) last = std::max(last, serve(place, requests, writes, issue));
  const uint64_t end = last + (writes ? preset_.timing_cwl : preset_.timing_cl) + preset_.timing_burst;
  return {ceil_div((issue >> kFraction) * chip_ticks_, dram_ticks_), ceil_div(end * chip_ticks_, dram_ticks_)};
}

uint64_t stream_millicycles(const DramPreset& preset, uint64_t chip_hz, uint64_t bytes) {
  AddressMap map;
  address_map(preset, "preset", &map);
  DramBanks banks(preset, std::move(map), chip_hz);
  constexpr uint64_t kTiles = 1024;  // many refresh intervals
  uint64_t end = 0;
  for (uint64_t i = 0; i < kTiles; ++i) end = banks.move(i * bytes, 1, bytes, bytes, false, end).end;
  return end * 1000 / kTiles;
}

DramEnergy stream_energy(const DramPreset& preset, uint64_t chip_hz, uint64_t bytes, bool whole_bursts) {
  constexpr uint64_t kTiles = 64, kFemto = 1000;
  DramEnergy energy;
  for (const bool writes : {false, true}) {
    DramBanks::Events events;
    if (whole_bursts) {
      events.activates = kTiles * ceil_div(bytes, preset.organization_row_bytes);
      (writes ? events.writes : events.reads) = kTiles * ceil_div(bytes, preset.organization_burst_bytes);
    } else {
      AddressMap map;
      address_map(preset, "preset", &map);
      DramBanks banks(preset, std::move(map), chip_hz);
      uint64_t end = 0;
      for (uint64_t i = 0; i < kTiles; ++i) end = banks.move(i * bytes, 1, bytes, bytes, writes, end).end;
      events = banks.events();
    }
    const uint64_t pj = events.activates * preset.energy_activate + events.reads * preset.energy_read +
                        events.writes * preset.energy_write;
    (writes ? energy.write_fj : energy.read_fj) = pj * kFemto / (kTiles * bytes);
  }
  // pJ * Hz = 10^-12 W; a rank is refreshed every refi cycles.
  const uint64_t refreshes_per_second =
      preset.clock_hz / preset.timing_refi * preset.organization_ranks * preset.organization_channels;
  energy.static_uw = preset.energy_standby + preset.energy_refresh * refreshes_per_second / 1'000'000;
  return energy;
}

}  // namespace atalla::sim
