// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/launch.h"

#include <algorithm>
#include <cinttypes>

#include "sim/abi/error.h"
#include "sim/device/launch.h"
#include "sim/isa/machine.h"

namespace atalla::sim::isa {

atalla_status launch(Device& device, uint32_t stream, StreamClock* clock, const Program& program,
                     const atalla_isa_params& params, atalla_isa_stats* stats) {
  const std::lock_guard lock(device.core().mutex());
  Machine machine;
  // Not owned: the caller keeps the program while it runs.
  const std::shared_ptr<const Program> borrowed(std::shared_ptr<void>(), &program);
  atalla_status status = machine.open(&device, 0, borrowed, params);
  uint32_t stop = ATALLA_ISA_BUDGET;
  if (status == ATALLA_OK) status = machine.run(params.max_packets, &stop);
  if (status == ATALLA_OK && stop == ATALLA_ISA_BUDGET) {
    machine.release();
    status =
        set_error(ATALLA_ERR_FAULT_KERNEL, "the program has not ended after %" PRIu64 " packets", params.max_packets);
  }
  if (status != ATALLA_OK) {
    prefix_error("device %d, launch %" PRIu64 " (Atalla program, tag %" PRIu64 "): ",
                 static_cast<int>(device.ordinal()), device.telemetry().launches(), params.tag);
    return status;
  }
  atalla_isa_stats found;
  machine.stats(&found);
  LaunchCharge charged;
  charged.assumed = false;
  charged.bytes_read = found.dram_bytes_read;
  charged.bytes_written = found.dram_bytes_written;
  charged.macs = found.macs;
  charged.energy = device.energy().of(events_of(found));
  Charge& charge = charged.time;
  charge.cycles = found.cycles + device.config().launch_overhead_cycles;
  charge.sdma_cycles = found.bus_cycles;
  for (uint32_t core = 0; core < machine.cores(); ++core) {  // those of the busiest one
    atalla_isa_stats one;
    machine.core_stats(core, &one);
    const auto unit = [&](Unit u) { return one.unit_cycles[static_cast<int>(u)]; };
    charge.vector_cycles = std::max({charge.vector_cycles, unit(Unit::kValu), unit(Unit::kVmul), unit(Unit::kVexp)});
    charge.array_cycles = std::max(charge.array_cycles, unit(Unit::kGsau));
  }
  charge.scratchpad_bytes = static_cast<uint32_t>(machine.scratchpad_bytes());
  atalla_launch_desc desc{};
  const int64_t kernel = find_kernel("isa.program");
  desc.kernel = kernel < 0 ? ATALLA_NO_KERNEL : static_cast<atalla_kernel>(kernel);
  desc.compute_dtype = ATALLA_BF16;
  desc.tag = params.tag;
  record_program(device, stream, desc, charged, clock);
  if (stats != nullptr) *stats = found;
  return ATALLA_OK;
}

}  // namespace atalla::sim::isa
