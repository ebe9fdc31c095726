// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/launch_size.h"

#include "runtime/device/api.h"
#include "sim/abi/atalla_schedule.h"

namespace atalla::runtime {
namespace {

// What the functional engine needs on one core, in picoseconds: estimates, meant to err to the long side, for no more
// than the choice of the thread. An operation of the chip's vector unit stands for 32 elements, a row of its array for
// 1,024 multiply-adds.
constexpr uint64_t kPerByte = 100;
constexpr uint64_t kPerRow = 50 * 1024;
constexpr uint64_t kPerVectorOp = 4000;

// A launch that was estimated. Launches that agree in this are alike enough for the choice of the thread.
struct Estimated {
  uint64_t bytes = 0;
  int64_t elements = 0;  // of the first operand's last dimension
  uint32_t kernel = 0;
  uint32_t operands = 0;  // with the compute dtype
  bool is_short = false;
};

bool estimate(atalla_device device, const atalla_launch_desc& desc) noexcept {
  const size_t bytes = atalla_launch_desc_bytes(desc.n_operands);
  const atalla_schedule_api* const schedule = schedule_api();
  uint64_t picoseconds = 0;
  if (schedule != nullptr) {  // not what the launch takes by its clock, which may have to run its code to know
    atalla_launch_work work{};
    work.struct_size = sizeof work;
    if (schedule->launch_work(&desc, bytes, &work) != ATALLA_OK) return true;
    picoseconds =
        (work.bytes_read + work.bytes_written) * kPerByte + work.array_rows * kPerRow + work.vector_ops * kPerVectorOp;
  } else {
    atalla_launch_record record{};
    if (api().launch_estimate(device, &desc, bytes, &record) != ATALLA_OK) return true;
    picoseconds = (record.dram_bytes_read + record.dram_bytes_written) * kPerByte + record.array_cycles * kPerRow +
                  record.vector_cycles * kPerVectorOp;
  }
  return picoseconds <= kShortNanoseconds * 1000;
}

}  // namespace

bool is_short_launch(atalla_device device, const atalla_launch_desc& desc, uint64_t operand_bytes) noexcept {
  constexpr size_t kKept = 16;
  static thread_local Estimated kept[kKept];
  if (operand_bytes >= kLongBytes || desc.n_operands > ATALLA_MAX_OPERANDS) return false;
  if (desc.n_operands == 0 || desc.operands[0].ndim == 0) return estimate(device, desc);
  const int64_t elements = desc.operands[0].sizes[(desc.operands[0].ndim - 1) % ATALLA_MAX_DIMS];
  const uint32_t operands = uint32_t{desc.n_operands} << 8 | desc.compute_dtype;
  Estimated& found = kept[(desc.kernel ^ operand_bytes >> 10) % kKept];
  if (found.bytes != operand_bytes || found.elements != elements || found.kernel != desc.kernel ||
      found.operands != operands) {
    found = {operand_bytes, elements, desc.kernel, operands, estimate(device, desc)};
  }
  return found.is_short;
}

}  // namespace atalla::runtime
