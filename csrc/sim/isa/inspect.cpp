// SPDX-License-Identifier: BSD-3-Clause
//
// What can be read off a machine: registers, memories, statistics.
#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstring>
#include <functional>

#include "sim/abi/error.h"
#include "sim/isa/machine.h"

namespace atalla::sim::isa {
namespace {

constexpr uint32_t kSpaceMask = (1u << ATALLA_ISA_CORE_SHIFT) - 1;
constexpr uint64_t kRowBytes = 64;  // of a scratchpad

}  // namespace

// Null for a core that the machine has not.
State* Machine::state_of(uint32_t space) const {
  const uint32_t core = space >> ATALLA_ISA_CORE_SHIFT;
  return core < cores_.size() ? &cores_[core]->state : nullptr;
}

uint8_t* Machine::locate(uint32_t space, uint64_t offset, uint64_t bytes) const {
  State* found = state_of(space);
  if (found == nullptr) return nullptr;
  State& s = *found;
  const auto within = [&](void* base, uint64_t size) -> uint8_t* {
    return offset <= size && bytes <= size - offset ? static_cast<uint8_t*>(base) + offset : nullptr;
  };
  switch (space & kSpaceMask) {
    case ATALLA_ISA_X:
      return within(s.x, 256 * sizeof(uint32_t));
    case ATALLA_ISA_V:
      return within(s.v, 256 * sizeof s.v[0]);
    case ATALLA_ISA_M:
      return within(s.m, sizeof s.m);
    case ATALLA_ISA_DRAM:
      return within(s.memory.dram, s.memory.dram_bytes);
    case ATALLA_ISA_SCRATCHPAD:
      return within(s.memory.pads, uint64_t{s.memory.pad_count} * s.memory.pad_rows * kLanes * sizeof(float));
    default:
      return nullptr;
  }
}

atalla_status Machine::read(uint32_t space, uint64_t offset, uint64_t bytes, void* data) const {
  const State* state = state_of(space);
  const uint32_t kind = space & kSpaceMask;
  if (state != nullptr && kind == ATALLA_ISA_PC && offset == 0 && bytes == sizeof(uint32_t)) {
    const uint32_t pc = state->packet * kPacketBytes;
    memcpy(data, &pc, sizeof pc);
    return ATALLA_OK;
  }
  if (state != nullptr && kind == ATALLA_ISA_CYCLE && offset == 0 && bytes == sizeof(uint64_t)) {
    const uint64_t cycle = state->timing ? state->scoreboard.next() : 0;
    memcpy(data, &cycle, sizeof cycle);
    return ATALLA_OK;
  }
  if (state != nullptr && kind == ATALLA_ISA_WEIGHTS) {
    const Weights& w = state->weights;
    const uint64_t all = uint64_t{w.width} * w.depth * sizeof(float);
    if (offset <= all && bytes <= all - offset) {
      std::vector<float> columns;
      for (uint32_t n = 0; n < w.width; ++n)
        for (uint32_t half = 0; half < w.depth / kLanes; ++half)
          columns.insert(columns.end(), w.column(half, n), w.column(half, n) + kLanes);
      memcpy(data, reinterpret_cast<const uint8_t*>(columns.data()) + offset, bytes);
      return ATALLA_OK;
    }
  }
  const uint8_t* from = locate(space, offset, bytes);
  if (from == nullptr) {
    return set_error(ATALLA_ERR_ARGUMENT, "%" PRIu64 " bytes at %" PRIu64 " of space %u of a machine, which it has not",
                     bytes, offset, space);
  }
  memcpy(data, from, bytes);
  return ATALLA_OK;
}

atalla_status Machine::write(uint32_t space, uint64_t offset, uint64_t bytes, const void* data) {
  State* state = state_of(space);
  if (state != nullptr && (space & kSpaceMask) == ATALLA_ISA_PC && offset == 0 && bytes == sizeof(uint32_t)) {
    uint32_t pc = 0;
    memcpy(&pc, data, sizeof pc);
    if (pc % kPacketBytes != 0 || pc / kPacketBytes >= program_->packets()) {
      return set_error(ATALLA_ERR_ARGUMENT, "PC 0x%08X is no packet", pc);
    }
    state->packet = pc / kPacketBytes;
    return ATALLA_OK;
  }
  uint8_t* to = locate(space, offset, bytes);
  if (to == nullptr) {
    return set_error(ATALLA_ERR_ARGUMENT, "%" PRIu64 " bytes at %" PRIu64 " of space %u of a machine, which it has not",
                     bytes, offset, space);
  }
  memcpy(to, data, bytes);
  state->x[0] = 0;  // x0 and v0 stay what they are
  memset(state->v[0], 0, sizeof state->v[0]);
  return ATALLA_OK;
}

std::vector<uint64_t> Machine::executed() const {
  std::vector<uint64_t> total(program_->packets());
  for (const auto& core : cores_)
    std::transform(total.begin(), total.end(), core->executed.begin(), total.begin(), std::plus<>());
  return total;
}

uint64_t Machine::scratchpad_bytes() const {
  uint64_t most = 0;
  for (const auto& core : cores_) most = std::max(most, core->state.counts.most_page_bytes);
  return most;
}

void Machine::stats(atalla_isa_stats* out) const {
  core_stats(0, out);
  for (uint32_t core = 1; core < cores(); ++core) {
    atalla_isa_stats one;
    core_stats(core, &one);
    for (uint64_t atalla_isa_stats::* const member :
         {&atalla_isa_stats::packets, &atalla_isa_stats::instructions, &atalla_isa_stats::dram_bytes_read,
          &atalla_isa_stats::dram_bytes_written, &atalla_isa_stats::transfers, &atalla_isa_stats::services,
          &atalla_isa_stats::branches_taken, &atalla_isa_stats::macs, &atalla_isa_stats::bus_cycles,
          &atalla_isa_stats::instruction_bytes, &atalla_isa_stats::data_bytes, &atalla_isa_stats::array_vectors})
      out->*member += one.*member;
    out->cycles = std::max(out->cycles, one.cycles);
    for (int i = 0; i < kUnitCount; ++i) {
      out->unit_instructions[i] += one.unit_instructions[i];
      out->unit_cycles[i] += one.unit_cycles[i];
    }
    for (int i = 0; i < kStalls; ++i) out->stall_cycles[i] += one.stall_cycles[i];
  }
  if (memory_ != nullptr) {
    const DramBanks::Events dram = memory_->dram_events();
    out->dram_activates = dram.activates;
    out->dram_reads = dram.reads;
    out->dram_writes = dram.writes;
    const MemorySystem::NetworkEvents network = memory_->network_events();
    out->network_link_bytes = network.link_bytes;
    out->network_router_bytes = network.router_bytes;
  }
  out->energy = energy_->of(events_of(*out));
  const atalla_energy idle = energy_->idle(out->cycles);
  atalla_energy_add(&out->energy, &idle);
}

EnergyEvents events_of(const atalla_isa_stats& stats) {
  const auto instructions = [&](Unit unit) { return stats.unit_instructions[static_cast<int>(unit)]; };
  EnergyEvents events;
  events.dram_activates = stats.dram_activates;
  events.dram_reads = stats.dram_reads;
  events.dram_writes = stats.dram_writes;
  events.moved_bytes = stats.dram_bytes_read + stats.dram_bytes_written;
  if (stats.dram_activates + stats.dram_reads + stats.dram_writes == 0) {  // a DRAM without banks
    events.stream_bytes_read = stats.dram_bytes_read + stats.instruction_bytes + stats.data_bytes;
    events.stream_bytes_written = stats.dram_bytes_written;
  }
  events.network_link_bytes = stats.network_link_bytes;
  events.network_router_bytes = stats.network_router_bytes;
  events.touched_bytes = instructions(Unit::kVmem) * kRowBytes;
  events.vector_ops = instructions(Unit::kValu) + instructions(Unit::kVmul);
  events.exp_ops = instructions(Unit::kVexp);
  events.array_rows = stats.array_vectors;
  events.packets = stats.packets;
  events.macs = stats.macs;
  return events;
}

void Machine::core_stats(uint32_t core, atalla_isa_stats* out) const {
  *out = {};
  out->stop = stop_;
  const State& s = cores_[core]->state;
  for (uint32_t p = 0; p < program_->packets(); ++p) {
    const uint64_t count = cores_[core]->executed[p];
    if (count == 0) continue;
    out->packets += count;
    for (const Instruction& instruction : program_->packet(p)) {
      if (instruction.op == Op::kNopS) continue;
      const Spec& spec = instruction.spec();
      const auto unit = static_cast<int>(spec.unit);
      const LatencyParameters& parameters = kLatencyParameters[static_cast<int>(spec.latency)];
      out->instructions += count;
      out->unit_instructions[unit] += count;
      out->unit_cycles[unit] += count * (parameters.occupancy != nullptr ? config_->*parameters.occupancy : 1);
      const auto group = static_cast<uint32_t>(instruction[Field::kGroup]);
      if (instruction.op == Op::kGemmVv) out->macs += count * kLanes * kLanes << std::popcount(group);
      if (spec.unit == Unit::kGsau) out->array_vectors += group != 0 ? 2 * count : count;
    }
  }
  static_assert(kUnitCount <= ATALLA_ISA_UNITS && kStalls <= ATALLA_ISA_STALLS);
  out->dram_bytes_read = s.counts.sdma_bytes_read;
  out->dram_bytes_written = s.counts.sdma_bytes_written;
  out->transfers = s.counts.transfers;
  out->services = s.counts.services;
  out->branches_taken = s.counts.taken;
  if (!s.timing) return;
  out->cycles = s.scoreboard.end();
  out->bus_cycles = s.scoreboard.bus_cycles();
  out->instruction_bytes = s.scoreboard.instruction_bytes();
  out->data_bytes = s.scoreboard.data_bytes();
  uint64_t busy = 0;
  for (uint32_t i = 0; i < s.memory.pad_count; ++i) busy += s.scoreboard.engine_cycles(i);
  out->unit_cycles[static_cast<int>(Unit::kSdma)] = busy;
  for (int i = 0; i < kStalls; ++i) out->stall_cycles[i] = s.scoreboard.stall(static_cast<Stall>(i));
}

const char* unit_name(uint32_t unit) { return unit < kUnitCount ? kUnitName[unit] : nullptr; }

const char* stall_name(uint32_t stall) {
  static const char* const kNames[] = {"overwrite",         "unit busy", "scratchpad rows", "DRAM bytes",
                                       "SDMA queue full",   "branch",    "firmware",        "barrier",
                                       "instruction fetch", "data fetch"};
  if (stall < kUnitCount) return kUnitName[stall];  // a result of that unit
  return stall < kStalls ? kNames[stall - kUnitCount] : nullptr;
}

}  // namespace atalla::sim::isa
