// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/machine.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "sim/abi/error.h"
#include "sim/device/device.h"
#include "sim/isa/service.h"

namespace atalla::sim::isa {
namespace {

// Refuses a chip that the fields of instructions cannot address.
atalla_status check_geometry(const ChipConfig& config) {
  const struct {
    const char* key;
    uint64_t value, low, high;
    const char* reason;
  } limits[] = {
      {"vector.lanes", config.vector_lanes, kLanes, kLanes, "vreg.ld names up to 32 columns, and masks have 32 bits"},
      {"array.rows", config.array_rows, kLanes, kLanes, "lw.vi pushes a vector of weights"},
      {"array.columns", config.array_columns, kLanes, kLanes, "gemm.vv gives a vector"},
      {"sdma.tile_rows", config.sdma_tile_rows, kLanes, kLanes, "scpad.ld and scpad.st have 5 bits for rows"},
      {"sdma.tile_columns", config.sdma_tile_columns, kLanes, kLanes, "scpad.ld and scpad.st have 5 bits for columns"},
      {"scratchpad.count", config.scratchpad_count, 1, 4, "instructions have 2 bits for the scratchpad"},
  };
  for (const auto& [key, value, low, high, reason] : limits) {
    if (value >= low && value <= high) continue;
    char expected[48];
    if (low == high) snprintf(expected, sizeof expected, "%" PRIu64, low);
    else snprintf(expected, sizeof expected, "%" PRIu64 " to %" PRIu64, low, high);
    return set_error(ATALLA_ERR_CONFIG, "Atalla code does not run on a chip whose %s is %" PRIu64 "; expected %s: %s",
                     key, value, expected, reason);
  }
  return ATALLA_OK;
}

}  // namespace

atalla_status Machine::open(Device* device, uint64_t dram_bytes, std::shared_ptr<const Program> program,
                            const atalla_isa_params& params) {
  const ChipConfig& config = device != nullptr ? device->config() : builtin_chip_config();
  if (const atalla_status status = check_geometry(config)) return status;
  if (params.entry % kPacketBytes != 0 || params.entry / kPacketBytes >= std::max(1u, program->packets())) {
    return set_error(ATALLA_ERR_ARGUMENT, "entry 0x%x is no packet of a program of %u packets", params.entry,
                     program->packets());
  }
  if (params.n_args > ATALLA_ISA_MAX_ARGS || params.profile > ATALLA_ISA_RNE ||
      params.dram_timing > ATALLA_ISA_DRAM_MEASURED) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "%u arguments, profile %u and DRAM timing %u; expected at most %d, and 0 to 1, and 0 to 2",
                     params.n_args, params.profile, params.dram_timing, ATALLA_ISA_MAX_ARGS);
  }
  config_ = &config;
  program_ = std::move(program);
  state_ = std::make_unique<State>();
  executed_.assign(program_->packets(), 0);
  Memory& memory = state_->memory;
  memory.pad_count = static_cast<uint32_t>(config.scratchpad_count);
  memory.pad_rows = static_cast<uint32_t>(config.scratchpad_bytes / config.scratchpad_row_bytes);
  memory.rounds = params.profile == ATALLA_ISA_RNE;
  constexpr uint64_t kAddressSpace = uint64_t{1} << 32;
  if (device != nullptr) {
    memory.dram = static_cast<uint8_t*>(device->dram().translate(device->dram().base()));
    memory.dram_bytes = std::min(device->dram().size(), kAddressSpace);
    if (const atalla_status status = device->core().scratchpads(config, &memory.pads)) return status;
    memory.allocator = &device->scratchpads();
  } else {
    if (dram_bytes == 0 || dram_bytes > kAddressSpace) {
      return set_error(ATALLA_ERR_ARGUMENT, "%" PRIu64 " bytes of DRAM; expected 1 to 2^32", dram_bytes);
    }
    const uint64_t pad_bytes = uint64_t{memory.pad_count} * memory.pad_rows * kLanes * sizeof(float);
    if (const atalla_status status = own_dram_.map(dram_bytes)) return status;
    if (const atalla_status status = own_pads_.map(pad_bytes)) return status;
    own_allocator_.reset(memory.pad_count, config.scratchpad_bytes, static_cast<uint32_t>(config.scratchpad_row_bytes));
    memory.dram = static_cast<uint8_t*>(own_dram_.data());
    memory.dram_bytes = dram_bytes;
    memory.pads = static_cast<float*>(own_pads_.data());
    memory.allocator = &own_allocator_;
  }
  state_->timing = params.no_timing == 0;
  if (state_->timing) state_->scoreboard.configure(config, memory.pad_count, memory.pad_rows, params.dram_timing);
  state_->packet = params.entry / kPacketBytes;
  for (uint32_t i = 0; i < params.n_args; ++i) state_->x[10 + i] = params.args[i];
  return ATALLA_OK;
}

void Machine::release() { release_pages(*state_); }

atalla_status Machine::run(uint64_t max_packets, uint32_t* stop) {
  if (stop_ == ATALLA_ISA_FAULT) return *stop = stop_, set_fault();
  if (stop_ == ATALLA_ISA_HALTED && state_->end == End::kHalt) return *stop = stop_, ATALLA_OK;
  const RunFunction run = run_function();
  uint64_t left = max_packets == 0 ? UINT64_MAX : max_packets;
  if (breakpoints_.empty() && watches_.empty()) {
    run(*program_, *state_, left, executed_.data());
    stop_ = ATALLA_ISA_BUDGET;
  } else {
    // One packet at a time; the speed of this loop does not matter to who looks on.
    bool first = true;
    do {
      if (!first && breakpoints_.contains(state_->packet)) {
        stop_ = ATALLA_ISA_BREAKPOINT;
        break;
      }
      first = false;
      const bool watched = state_->packet < program_->packets() && touches_watch(state_->packet);
      run(*program_, *state_, 1, executed_.data());
      stop_ = watched && state_->end != End::kFault ? ATALLA_ISA_WATCHPOINT : ATALLA_ISA_BUDGET;
    } while (--left != 0 && state_->end == End::kBudget && stop_ == ATALLA_ISA_BUDGET);
  }
  if (state_->end == End::kHalt) {
    stop_ = ATALLA_ISA_HALTED;
    release_pages(*state_);
  }
  if (state_->end == End::kFault) {
    stop_ = ATALLA_ISA_FAULT;
    release_pages(*state_);
  }
  *stop = stop_;
  return stop_ == ATALLA_ISA_FAULT ? set_fault() : ATALLA_OK;
}

atalla_status Machine::set_fault() const {
  const State& s = *state_;
  char place[160];
  const bool inside = s.packet < program_->packets();
  char text[96] = "";
  if (inside && s.fault != FaultKind::kIllegal) format(program_->packet(s.packet)[s.fault_slot], text, sizeof text);
  snprintf(place, sizeof place, "packet %u (0x%08X), slot %u%s%s", s.packet, s.packet * kPacketBytes, s.fault_slot,
           text[0] != 0 ? ", " : "", text);
  const uint64_t at = s.fault_address;
  switch (s.fault) {
    case FaultKind::kIllegal:
      return set_error(ATALLA_ERR_FAULT_KERNEL, "%s: %s", place, program_->illegal(s.packet).c_str());
    case FaultKind::kPastEnd:
      return set_error(ATALLA_ERR_FAULT_KERNEL, "the program ran past its end, to packet %u (0x%08X)", s.packet,
                       s.packet * kPacketBytes);
    case FaultKind::kDivision:
      return set_error(ATALLA_ERR_FAULT_KERNEL, "%s: division by zero", place);
    case FaultKind::kMisaligned:
      return set_error(ATALLA_ERR_FAULT_KERNEL, "%s: address 0x%08" PRIX64 " is misaligned", place, at);
    case FaultKind::kReported:
      return set_reported_fault(place);
    case FaultKind::kTarget:
      return set_error(ATALLA_ERR_FAULT_KERNEL, "%s: 0x%08" PRIX64 " is no packet", place, at);
    case FaultKind::kDram:
      return set_error(ATALLA_ERR_FAULT_ADDRESS,
                       "%s: the access at 0x%08" PRIX64 " leaves the %" PRIu64 " bytes of DRAM", place, at,
                       s.memory.dram_bytes);
    default:
      return set_error(ATALLA_ERR_FAULT_ADDRESS,
                       "%s: the access at 0x%08" PRIX64 " leaves the scratchpads (%u of %u bytes)", place, at,
                       s.memory.pad_count, s.memory.pad_rows * 64);
  }
}

atalla_status Machine::set_reported_fault(const char* place) const {
  const uint32_t* x = state_->x;
  const uint32_t low = x[11];
  const uint32_t high = x[12];
  switch (x[10]) {
    case ATALLA_ISA_FAULT_SCRATCHPAD:
      return set_error(ATALLA_ERR_SCRATCHPAD, "scratchpad memory refused: %s; the program stopped at %s",
                       state_->refusal.empty() ? "no allocation has failed" : state_->refusal.c_str(), place);
    case ATALLA_ISA_FAULT_INDEX:
      return set_error(ATALLA_ERR_FAULT_KERNEL, "%s: index %" PRId32 " out of range for %" PRIu32 " rows", place,
                       static_cast<int32_t>(low), high);
    case ATALLA_ISA_FAULT_INTEGER:
      return set_error(ATALLA_ERR_FAULT_KERNEL, "%s: the integer %" PRId64 " does not fit in 32 bits", place,
                       static_cast<int64_t>(uint64_t{high} << 32 | low));
    case ATALLA_ISA_FAULT_OVERFLOW:
      return set_error(ATALLA_ERR_FAULT_KERNEL, "%s: the result of an integer operation does not fit in 32 bits",
                       place);
    case ATALLA_ISA_FAULT_ELEMENT:
      return set_error(ATALLA_ERR_FAULT_KERNEL, "%s: an element does not meet the requirements of the op", place);
    default:
      return set_error(ATALLA_ERR_FAULT_KERNEL,
                       "%s: the program reports error %" PRIu32 ", values %" PRIu32 " and %" PRIu32, place, x[10], low,
                       high);
  }
}

bool Machine::meets_watch(uint32_t space, uint64_t low, uint64_t high, uint32_t access) const {
  return std::any_of(watches_.begin(), watches_.end(), [&](const Watch& w) {
    return w.space == space && (w.access & access) != 0 && low < w.high && w.low < high;
  });
}

// What the packet is going to touch, from the registers as they are.
bool Machine::touches_watch(uint32_t packet) const {
  const uint32_t* x = state_->x;
  const Issue& issue = program_->issues()[packet];
  constexpr uint64_t kRowBytes = kLanes * sizeof(float);
  for (unsigned i = 0; i < issue.rows; ++i) {
    const RowUse& use = issue.row[i];
    const uint64_t row = uint64_t{use.sid} * state_->memory.pad_rows + use.number(x);
    if (meets_watch(ATALLA_ISA_SCRATCHPAD, row * kRowBytes, (row + 1) * kRowBytes, use.store ? 2 : 1)) return true;
  }
  for (unsigned i = 0; i < issue.uses; ++i) {
    const MemoryUse& use = issue.use[i];
    if (use.access >= Access::kWordLoad) {
      const uint32_t at = x[use.a] + static_cast<uint32_t>(use.imm);
      const uint32_t access = use.access == Access::kWordLoad ? 1 : 2;
      if (meets_watch(ATALLA_ISA_DRAM, at, uint64_t{at} + use.bytes, access)) return true;
    } else {
      const uint32_t meta = x[use.c];
      const bool loads = use.access == Access::kTileLoad;
      const uint64_t rows = (meta >> 25 & 31) + 1;
      const uint64_t columns = (meta >> 20 & 31) + 1;
      const uint64_t length = (meta & 0xFFFFF) != 0 ? (meta & 0xFFFFF) + 1 : columns;
      const uint64_t first = uint64_t{meta >> 30} * state_->memory.pad_rows + (x[use.a] >> 6);
      if (meets_watch(ATALLA_ISA_SCRATCHPAD, first * kRowBytes, (first + rows) * kRowBytes, loads ? 2 : 1)) return true;
      for (uint64_t r = 0; r < rows; ++r) {
        const uint64_t at = x[use.b] + r * length * 2;
        if (meets_watch(ATALLA_ISA_DRAM, at, at + columns * 2, loads ? 1 : 2)) return true;
      }
    }
  }
  return false;
}

atalla_status Machine::set_breakpoint(uint32_t address, bool set) {
  if (address % kPacketBytes != 0 || address / kPacketBytes >= program_->packets()) {
    return set_error(ATALLA_ERR_ARGUMENT, "a breakpoint at 0x%08X, which is no packet", address);
  }
  if (set) {
    breakpoints_.insert(address / kPacketBytes);
  } else {
    breakpoints_.erase(address / kPacketBytes);
  }
  return ATALLA_OK;
}

atalla_status Machine::set_watch(const Watch& watch) {
  if ((watch.space != ATALLA_ISA_DRAM && watch.space != ATALLA_ISA_SCRATCHPAD) || watch.low >= watch.high ||
      watch.access > 3 || locate(watch.space, watch.low, watch.high - watch.low) == nullptr) {
    return set_error(ATALLA_ERR_ARGUMENT, "a watch of space %u, bytes %" PRIu64 " to %" PRIu64 ", access %u",
                     watch.space, watch.low, watch.high, watch.access);
  }
  std::erase_if(watches_,
                [&](const Watch& w) { return w.space == watch.space && w.low == watch.low && w.high == watch.high; });
  if (watch.access != 0) watches_.push_back(watch);
  return ATALLA_OK;
}

atalla_status Machine::set_array(const atalla_isa_array& array) {
  if (array.push == nullptr || array.row == nullptr) {
    return set_error(ATALLA_ERR_ARGUMENT, "an array without push or row; expected both functions");
  }
  if (std::any_of(executed_.begin(), executed_.end(), [](uint64_t count) { return count != 0; })) {
    return set_error(ATALLA_ERR_ARGUMENT, "the machine has run; replace the array before its first packet");
  }
  state_->weights.array = array;
  state_->weights.plain = 0;
  return ATALLA_OK;
}

}  // namespace atalla::sim::isa
