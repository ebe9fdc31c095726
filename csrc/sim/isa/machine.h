// SPDX-License-Identifier: BSD-3-Clause
//
// One run of a program on one or more cores, and the ways to look into it. Not thread-safe; who runs on a device holds
// the mutex of its cores.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "sim/abi/atalla_isa.h"
#include "sim/energy/model.h"
#include "sim/isa/core.h"
#include "sim/isa/program.h"
#include "sim/isa/state.h"

namespace atalla::sim {
class Device;
}

namespace atalla::sim::isa {

struct Watch {
  uint32_t space;
  uint64_t low;
  uint64_t high;
  uint32_t access;  // 1 reads, 2 writes
};

class Machine {
 public:
  // ATALLA_ERR_CONFIG for a chip whose lanes or array are not 32 wide: the instruction set knows no other.
  // `device` null: over `dram_bytes` of memory of its own and the built-in chip, with as many cores as asked for.
  atalla_status open(Device* device, uint64_t dram_bytes, std::shared_ptr<const Program> program,
                     const atalla_isa_params& params);
  // Gives pages back to the firmware; without a device there is no firmware to give them to.
  void release();
  void forget_pages();
  // The handle by which errors name the owner of the program's pages.
  void set_handle(uint64_t handle);

  atalla_status run(uint64_t max_packets, uint32_t* stop);
  // Of all cores together, or of one, without energy. Cycles are those of the last core to end.
  void stats(atalla_isa_stats* stats) const;
  void core_stats(uint32_t core, atalla_isa_stats* stats) const;
  uint32_t cores() const { return static_cast<uint32_t>(cores_.size()); }
  // `space`: atalla_isa_space, and the core in the bits above ATALLA_ISA_CORE_SHIFT.
  atalla_status read(uint32_t space, uint64_t offset, uint64_t bytes, void* data) const;
  atalla_status write(uint32_t space, uint64_t offset, uint64_t bytes, const void* data);
  atalla_status set_breakpoint(uint32_t address, bool set);
  atalla_status set_watch(const Watch& watch);
  atalla_status set_array(const atalla_isa_array& array);
  // How often each packet has run, on all cores.
  std::vector<uint64_t> executed() const;
  // The most bytes of scratchpad pages that the program had at once on a core.
  uint64_t scratchpad_bytes() const;

 private:
  // A core: its state, and how often it has run each packet.
  struct CoreRun {
    State state;
    std::vector<uint64_t> executed;
  };

  atalla_status open_memory(Device* device, uint64_t dram_bytes, uint32_t core, Memory* memory);
  CoreRun* next_core();
  bool pass_barrier();
  bool inspects() const { return !breakpoints_.empty() || !watches_.empty(); }
  uint64_t advance(CoreRun& core, uint64_t packets);
  atalla_status set_fault() const;
  atalla_status set_reported_fault(const State& state, const char* place) const;
  bool touches_watch(const State& state) const;
  bool meets_watch(uint32_t space, uint64_t low, uint64_t high, uint32_t access) const;
  State* state_of(uint32_t space) const;
  // Null when the range is outside of the space.
  uint8_t* locate(uint32_t space, uint64_t offset, uint64_t bytes) const;

  std::shared_ptr<const Program> program_;
  std::vector<std::unique_ptr<CoreRun>> cores_;
  std::unique_ptr<MemorySystem> memory_;
  bool resumed_ = false;            // a breakpoint does not stop before the first packet of a run
  std::set<uint32_t> breakpoints_;  // packets
  std::vector<Watch> watches_;
  uint32_t stop_ = ATALLA_ISA_BUDGET;
  std::unique_ptr<ChipConfig> own_config_;  // without a device
  const ChipConfig* config_ = nullptr;
  std::unique_ptr<EnergyModel> own_energy_;  // without a device
  const EnergyModel* energy_ = nullptr;
  Pages own_dram_;
  Core own_core_;  // without a device
};

// Of a program that did this.
EnergyEvents events_of(const atalla_isa_stats& stats);

const char* unit_name(uint32_t unit);
const char* stall_name(uint32_t stall);

}  // namespace atalla::sim::isa
