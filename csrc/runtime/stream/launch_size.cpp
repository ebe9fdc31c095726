// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/launch_size.h"

#include "runtime/device/api.h"

namespace atalla::runtime {
namespace {

// What the functional engine needs on one core, in picoseconds: estimates, meant to err to the long side, for no more
// than the choice of the thread. A vector cycle of the chip stands for 16 elements of an operation.
constexpr uint64_t kPerByte = 100;
constexpr uint64_t kPerMac = 50;
constexpr uint64_t kPerVectorCycle = 2000;

}  // namespace

bool is_short_launch(atalla_device device, const atalla_launch_desc& desc, uint64_t operand_bytes) noexcept {
  if (operand_bytes >= kLongBytes || desc.n_operands > ATALLA_MAX_OPERANDS) return false;
  atalla_launch_record record{};
  const atalla_status status = api().launch_estimate(device, &desc, atalla_launch_desc_bytes(desc.n_operands), &record);
  if (status != ATALLA_OK) return true;
  const uint64_t picoseconds = (record.dram_bytes_read + record.dram_bytes_written) * kPerByte + record.macs * kPerMac +
                               record.vector_cycles * kPerVectorCycle;
  return picoseconds <= kShortNanoseconds * 1000;
}

}  // namespace atalla::runtime
