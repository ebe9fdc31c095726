// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/machine.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "sim/abi/error.h"
#include "sim/device/device.h"
#include "sim/host/float_mode.h"
#include "sim/isa/engine/run.h"
#include "sim/isa/service.h"

namespace atalla::sim::isa {
namespace {

constexpr uint64_t kMostCores = 64;  // of a chip file
constexpr uint64_t kAddressSpace = uint64_t{1} << 32;

// Refuses a chip that the fields of instructions cannot address.
atalla_status check_geometry(const ChipConfig& config) {
  const struct {
    const char* key;
    uint64_t value, low, high;
    const char* reason;
  } limits[] = {
      {"vector.lanes", config.vector_lanes, kLanes, kLanes, "vreg.ld names up to 32 columns, and masks have 32 bits"},
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
  const struct {
    const char* key;
    uint64_t value;
    const char* reason;
  } sides[] = {
      {"array.rows", config.array_rows, "lw.vi pushes a vector of weights, or a pair of vectors"},
      {"array.columns", config.array_columns, "gemm.vv gives a vector, or a pair of vectors"},
  };
  for (const auto& [key, value, reason] : sides) {
    if (value == kLanes || value == Weights::kMost) continue;
    return set_error(ATALLA_ERR_CONFIG,
                     "Atalla code does not run on a chip whose %s is %" PRIu64 "; expected %d or %" PRIu32 ": %s", key,
                     value, kLanes, Weights::kMost, reason);
  }
  return ATALLA_OK;
}

// Of the set of parameters that the caller wants instead of the chip's DRAM.
std::optional<BeatTiming> beats_of(const ChipConfig& config, uint32_t timing) {
  if (timing == ATALLA_ISA_DRAM_IDEAL)
    return BeatTiming{config.sdma_ideal_setup_cycles, millicycles(config.sdma_ideal_beat_cycles)};
  if (timing == ATALLA_ISA_DRAM_MEASURED)
    return BeatTiming{config.sdma_setup_cycles, millicycles(config.sdma_measured_beat_cycles)};
  return std::nullopt;
}

}  // namespace

atalla_status Machine::open(Device* device, uint64_t dram_bytes, std::shared_ptr<const Program> program,
                            const atalla_isa_params& params) {
  const uint32_t count = std::max(1u, params.cores);
  if (device == nullptr) {
    own_config_ = std::make_unique<ChipConfig>(program->config());
    own_config_->core_count = std::max(own_config_->core_count, std::min<uint64_t>(count, kMostCores));
    own_config_->core_own_scratchpads = true;
  }
  const ChipConfig& config = device != nullptr ? device->config() : *own_config_;
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
  if (count > config.core_count) {
    return set_error(ATALLA_ERR_UNSUPPORTED, "a program for %u cores; the chip has %" PRIu64, count, config.core_count);
  }
  if (count > 1 && !config.core_own_scratchpads) {
    return set_error(ATALLA_ERR_UNSUPPORTED,
                     "a program for %u cores, which share the scratchpads; expected a chip file whose core.scratchpads "
                     "is \"own\"",
                     count);
  }
  config_ = &config;
  if (device == nullptr) own_energy_ = std::make_unique<EnergyModel>(config);
  energy_ = device != nullptr ? &device->energy() : own_energy_.get();
  program_ = std::move(program);
  if (device == nullptr && (dram_bytes == 0 || dram_bytes > kAddressSpace)) {
    return set_error(ATALLA_ERR_ARGUMENT, "%" PRIu64 " bytes of DRAM; expected 1 to 2^32", dram_bytes);
  }
  if (params.no_timing == 0) memory_ = std::make_unique<MemorySystem>(config, beats_of(config, params.dram_timing));
  for (uint32_t core = 0; core < count; ++core) {
    auto made = std::make_unique<CoreRun>();
    made->executed.assign(program_->packets(), 0);
    State& state = made->state;
    if (const atalla_status status = open_memory(device, dram_bytes, core, &state.memory)) return status;
    state.weights.depth = static_cast<uint32_t>(config.array_rows);
    state.weights.width = static_cast<uint32_t>(config.array_columns);
    state.memory.rounds = params.profile == ATALLA_ISA_RNE;
    state.core = core;
    state.has_peers = count > 1;
    state.timing = memory_ != nullptr;
    if (state.timing)
      state.scoreboard.configure(config, state.memory.pad_count, state.memory.pad_rows, memory_.get(), core,
                                 state.has_peers);
    state.packet = params.entry / kPacketBytes;
    for (uint32_t i = 0; i < params.n_args; ++i) state.x[10 + i] = params.args[i];
    if (count > 1) {
      state.x[10 + ATALLA_ISA_MAX_ARGS] = core;
      state.x[11 + ATALLA_ISA_MAX_ARGS] = count;
    }
    cores_.push_back(std::move(made));
  }
  return ATALLA_OK;
}

// DRAM and the core's scratchpads: the device's, or the machine's own.
atalla_status Machine::open_memory(Device* device, uint64_t dram_bytes, uint32_t core, Memory* memory) {
  memory->pad_count = static_cast<uint32_t>(config_->scratchpad_count);
  memory->pad_rows = static_cast<uint32_t>(config_->scratchpad_bytes / config_->scratchpad_row_bytes);
  Core& scratchpads = device != nullptr ? device->core() : own_core_;
  if (const atalla_status status = scratchpads.scratchpads(*config_, core, &memory->pads, &memory->allocator))
    return status;
  if (device != nullptr) {
    memory->dram = static_cast<uint8_t*>(device->dram().translate(device->dram().base()));
    memory->dram_bytes = std::min(device->dram().size(), kAddressSpace);
    if (core == 0) memory->allocator = &device->scratchpads();
    return ATALLA_OK;
  }
  if (own_dram_.data() == nullptr) {
    if (const atalla_status status = own_dram_.map(dram_bytes)) return status;
  }
  memory->dram = static_cast<uint8_t*>(own_dram_.data());
  memory->dram_bytes = dram_bytes;
  return ATALLA_OK;
}

void Machine::release() {
  for (const auto& core : cores_) release_pages(core->state);
}

void Machine::forget_pages() {
  for (const auto& core : cores_) core->state.pages.clear();
}

void Machine::set_handle(uint64_t handle) {
  for (const auto& core : cores_) core->state.machine = handle;
}

// The one that runs next: of those that neither ended nor wait, the one that is farthest behind. None if all wait or
// have ended. Transfers that come before its next packet start first.
Machine::CoreRun* Machine::next_core() {
  for (;;) {
    CoreRun *next = nullptr, *moves = nullptr;
    for (const auto& core : cores_) {
      const State& state = core->state;
      if (moves == nullptr || state.scoreboard.next_transfer() < moves->state.scoreboard.next_transfer())
        moves = core.get();
      if (state.end == End::kHalt || state.waits || state.blocked) continue;
      if (next == nullptr || state.scoreboard.next() < next->state.scoreboard.next()) next = core.get();
    }
    const uint64_t transfer = moves->state.scoreboard.next_transfer();
    if (transfer == UINT64_MAX || (next != nullptr && transfer > next->state.scoreboard.next())) return next;
    moves->state.scoreboard.start_transfer();
    moves->state.blocked = false;
  }
}

// Runs packets of one core; gives their number.
uint64_t Machine::advance(CoreRun& core, uint64_t packets) {
  const ChipFloatMode mode;
  State& state = core.state;
  if (!inspects()) {
    run_function()(*program_, state, packets, core.executed.data());
    stop_ = state.end == End::kFault ? ATALLA_ISA_FAULT : ATALLA_ISA_BUDGET;
    return packets - state.left;
  }
  // The speed of this does not matter to who looks on.
  if (!resumed_ && breakpoints_.contains(state.packet)) {
    stop_ = ATALLA_ISA_BREAKPOINT;
    return 0;
  }
  const bool watched = state.packet < program_->packets() && touches_watch(state);
  run_function()(*program_, state, 1, core.executed.data());
  stop_ = state.end == End::kFault    ? ATALLA_ISA_FAULT
          : watched && !state.blocked ? ATALLA_ISA_WATCHPOINT
                                      : ATALLA_ISA_BUDGET;
  return 1 - state.left;
}

atalla_status Machine::run(uint64_t max_packets, uint32_t* stop) {
  if (stop_ == ATALLA_ISA_FAULT) return *stop = stop_, set_fault();
  // Cores take turns of a few packets, so that they reach the memory nearly in the order of their cycles.
  constexpr uint64_t kTurn = 16;
  uint64_t left = max_packets == 0 ? UINT64_MAX : max_packets;
  resumed_ = true;
  stop_ = ATALLA_ISA_BUDGET;
  while (left != 0 && stop_ == ATALLA_ISA_BUDGET) {
    if (CoreRun* core = next_core()) {
      left -= advance(*core, cores_.size() == 1 ? left : std::min(left, kTurn));
      resumed_ = false;
    } else if (!pass_barrier()) {
      stop_ = ATALLA_ISA_HALTED;
    }
  }
  if (next_core() == nullptr && stop_ == ATALLA_ISA_BUDGET &&
      std::none_of(cores_.begin(), cores_.end(), [](const auto& core) { return core->state.waits; }))
    stop_ = ATALLA_ISA_HALTED;
  if (stop_ == ATALLA_ISA_HALTED || stop_ == ATALLA_ISA_FAULT) release();
  *stop = stop_;
  return stop_ == ATALLA_ISA_FAULT ? set_fault() : ATALLA_OK;
}

// Lets the cores go on that wait, once what each of them began has ended. False if none waits.
bool Machine::pass_barrier() {
  uint64_t end = 0;
  bool waited = false;
  for (const auto& core : cores_)
    if (core->state.waits && core->state.timing) end = std::max(end, core->state.scoreboard.end());
  for (const auto& core : cores_) {
    if (!core->state.waits) continue;
    waited = true;
    core->state.waits = false;
    core->state.scoreboard.wait_until(end);
  }
  return waited;
}

atalla_status Machine::set_fault() const {
  const auto found =
      std::find_if(cores_.begin(), cores_.end(), [](const auto& core) { return core->state.end == End::kFault; });
  const State& s = (*found)->state;
  char place[176];
  char where[16] = "";
  if (s.has_peers) snprintf(where, sizeof where, "core %u, ", s.core);
  const bool inside = s.packet < program_->packets();
  char text[96] = "";
  if (inside && s.fault != FaultKind::kIllegal) format(program_->packet(s.packet)[s.fault_slot], text, sizeof text);
  snprintf(place, sizeof place, "%spacket %u (0x%08X), slot %u%s%s", where, s.packet, s.packet * kPacketBytes,
           s.fault_slot, text[0] != 0 ? ", " : "", text);
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
      return set_reported_fault(s, place);
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

atalla_status Machine::set_reported_fault(const State& state, const char* place) const {
  const uint32_t* x = state.x;
  const uint32_t low = x[11];
  const uint32_t high = x[12];
  switch (x[10]) {
    case ATALLA_ISA_FAULT_SCRATCHPAD:
      return set_error(ATALLA_ERR_SCRATCHPAD, "scratchpad memory refused: %s; the program stopped at %s",
                       state.refusal.empty() ? "no allocation has failed" : state.refusal.c_str(), place);
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

// True if the core's next packet is going to touch a watched range, by the registers as they are.
bool Machine::touches_watch(const State& state) const {
  const uint32_t* x = state.x;
  const uint32_t core = state.core << ATALLA_ISA_CORE_SHIFT;  // DRAM is the same for all
  const Issue& issue = program_->issues()[state.packet];
  constexpr uint64_t kRowBytes = kLanes * sizeof(float);
  for (unsigned i = 0; i < issue.rows; ++i) {
    const RowUse& use = issue.row[i];
    const uint64_t row = use.place(x);
    if (meets_watch(ATALLA_ISA_SCRATCHPAD | core, row * kRowBytes, (row + 1) * kRowBytes, use.store ? 2 : 1))
      return true;
  }
  for (unsigned i = 0; i < issue.uses; ++i) {
    const MemoryUse& use = issue.use[i];
    if (use.access >= Access::kWordLoad) {
      const uint32_t at = x[use.a] + static_cast<uint32_t>(use.imm);
      const uint32_t access = use.access == Access::kWordLoad ? 1 : 2;
      if (meets_watch(ATALLA_ISA_DRAM, at, uint64_t{at} + use.bytes, access)) return true;
    } else {
      const Tile tile(x[use.c]);
      const bool loads = use.access == Access::kTileLoad;
      const uint64_t first = uint64_t{tile.sid} * state.memory.pad_rows + (x[use.a] >> 6);
      if (meets_watch(ATALLA_ISA_SCRATCHPAD | core, first * kRowBytes, (first + tile.rows) * kRowBytes, loads ? 2 : 1))
        return true;
      for (uint64_t r = 0; r < tile.rows; ++r) {
        const uint64_t at = x[use.b] + r * tile.length * 2;
        if (meets_watch(ATALLA_ISA_DRAM, at, at + uint64_t{tile.columns} * 2, loads ? 1 : 2)) return true;
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
  const uint32_t kind = watch.space & ((1u << ATALLA_ISA_CORE_SHIFT) - 1);
  if ((watch.space != ATALLA_ISA_DRAM && kind != ATALLA_ISA_SCRATCHPAD) || watch.low >= watch.high ||
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
  if (config_->array_rows != kLanes || config_->array_columns != kLanes)
    return set_error(ATALLA_ERR_ARGUMENT,
                     "an array of 32 x 32 for a chip whose array is %" PRIu64 " x %" PRIu64
                     "; expected a chip file with "
                     "array.rows and array.columns of 32",
                     config_->array_rows, config_->array_columns);
  if (cores_.size() != 1)
    return set_error(ATALLA_ERR_ARGUMENT, "an array for a machine of %zu cores; expected one core", cores_.size());
  State& state = cores_[0]->state;
  const std::vector<uint64_t>& counts = cores_[0]->executed;
  if (std::any_of(counts.begin(), counts.end(), [](uint64_t count) { return count != 0; })) {
    return set_error(ATALLA_ERR_ARGUMENT, "the machine has run; replace the array before its first packet");
  }
  state.weights.array = array;
  state.weights.plain = state.weights.dots = 0;
  return ATALLA_OK;
}

}  // namespace atalla::sim::isa
