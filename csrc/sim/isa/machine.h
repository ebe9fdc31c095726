// SPDX-License-Identifier: BSD-3-Clause
//
// One run of a program, and the ways to look into it. Not thread-safe; who runs on a device holds its core's mutex.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/abi/atalla_isa.h"
#include "sim/isa/core.h"
#include "sim/isa/engine/run.h"

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
  // `device` null: over `dram_bytes` of memory of its own and the built-in chip.
  atalla_status open(Device* device, uint64_t dram_bytes, std::shared_ptr<const Program> program,
                     const atalla_isa_params& params);
  // Gives pages back to the firmware; without a device there is no firmware to give them to.
  void release();
  void forget_pages() { state_->pages.clear(); }
  // The handle by which errors name the owner of the program's pages.
  void set_handle(uint64_t handle) { state_->machine = handle; }

  atalla_status run(uint64_t max_packets, uint32_t* stop);
  void stats(atalla_isa_stats* stats) const;
  atalla_status read(uint32_t space, uint64_t offset, uint64_t bytes, void* data) const;
  atalla_status write(uint32_t space, uint64_t offset, uint64_t bytes, const void* data);
  atalla_status set_breakpoint(uint32_t address, bool set);
  atalla_status set_watch(const Watch& watch);
  atalla_status set_array(const atalla_isa_array& array);
  const std::vector<uint64_t>& executed() const { return executed_; }
  // The most bytes of scratchpad pages that the program had at once.
  uint64_t scratchpad_bytes() const { return state_->counts.most_page_bytes; }

 private:
  atalla_status set_fault() const;
  atalla_status set_reported_fault(const char* place) const;
  bool touches_watch(uint32_t packet) const;
  bool meets_watch(uint32_t space, uint64_t low, uint64_t high, uint32_t access) const;
  // Null when the range is outside of the space.
  uint8_t* locate(uint32_t space, uint64_t offset, uint64_t bytes) const;

  std::shared_ptr<const Program> program_;
  std::unique_ptr<State> state_;
  std::vector<uint64_t> executed_;
  std::set<uint32_t> breakpoints_;  // packets
  std::vector<Watch> watches_;
  uint32_t stop_ = ATALLA_ISA_BUDGET;
  const ChipConfig* config_ = nullptr;
  Pages own_dram_;
  Pages own_pads_;
  ScratchpadAllocator own_allocator_;
};

const char* unit_name(uint32_t unit);
const char* stall_name(uint32_t stall);

}  // namespace atalla::sim::isa
