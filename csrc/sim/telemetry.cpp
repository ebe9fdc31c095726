// SPDX-License-Identifier: BSD-3-Clause
#include "telemetry.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <new>

namespace atalla::sim {

// Populated at once: the first pass through the ring must not pay for page faults inside launches.
Telemetry::Telemetry(size_t capacity) : capacity_(capacity) {
  void* memory = mmap(nullptr, capacity * sizeof(atalla_launch_record), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ring_ = static_cast<atalla_launch_record*>(memory);
}

Telemetry::~Telemetry() { munmap(ring_, capacity_ * sizeof(atalla_launch_record)); }

void fill_launch_record(const atalla_launch_desc& desc, const Cost& cost, const Charge& charge,
                        atalla_launch_record* record) {
  record->tag = desc.tag;
  record->cycles = charge.cycles;
  record->sdma_cycles = charge.sdma_cycles;
  record->vector_cycles = charge.vector_cycles;
  record->array_cycles = charge.array_cycles;
  record->dram_bytes_read = cost.bytes_read;
  record->dram_bytes_written = cost.bytes_written;
  record->macs = cost.macs;
  record->kernel = desc.kernel;
  record->n_operands = desc.n_operands;
  record->dtype = desc.compute_dtype;
  record->ndim = 0;
  if (desc.n_operands != 0) {
    const atalla_operand& operand = desc.operands[0];
    record->ndim = operand.ndim;
    for (int d = 0; d < operand.ndim; ++d) record->sizes[d] = operand.sizes[d];
  }
}

uint64_t Telemetry::record_launch(uint64_t stream_clock, uint32_t stream, const atalla_launch_desc& desc,
                                  const Cost& cost, const Charge& charge) {
  const std::lock_guard lock(lock_);
  const uint64_t start = std::max(stream_clock, clock_);
  clock_ = start + charge.cycles;
  atalla_launch_record& record = ring_[next_];
  if (++next_ == capacity_) next_ = 0;
  record.sequence = sequence_++;
  record.start_cycle = start;
  record.stream = stream;
  fill_launch_record(desc, cost, charge, &record);
  counters_.launches += 1;
  counters_.cycles += charge.cycles;
  counters_.sdma_cycles += charge.sdma_cycles;
  counters_.vector_cycles += charge.vector_cycles;
  counters_.array_cycles += charge.array_cycles;
  counters_.dram_bytes_read += cost.bytes_read;
  counters_.dram_bytes_written += cost.bytes_written;
  counters_.macs += cost.macs;
  return clock_;
}

uint64_t Telemetry::record_copy(uint64_t stream_clock, const CopyBytes& bytes, const Charge& charge) {
  const std::lock_guard lock(lock_);
  clock_ = std::max(stream_clock, clock_) + charge.cycles;
  counters_.copies += 1;
  counters_.cycles += charge.cycles;
  counters_.sdma_cycles += charge.sdma_cycles;
  counters_.dram_bytes_read += bytes.dram_read;
  counters_.dram_bytes_written += bytes.dram_written;
  counters_.host_bytes_to_device += bytes.from_host;
  counters_.host_bytes_from_device += bytes.to_host;
  return clock_;
}

uint64_t Telemetry::launches() const {
  const std::lock_guard lock(lock_);
  return sequence_;
}

atalla_counters Telemetry::counters() const {
  const std::lock_guard lock(lock_);
  return counters_;
}

void Telemetry::reset_counters() {
  const std::lock_guard lock(lock_);
  counters_ = {};
}

void Telemetry::records(uint64_t from, atalla_launch_record* out, size_t* count) const {
  const std::lock_guard lock(lock_);
  const uint64_t kept = std::min<uint64_t>(sequence_, capacity_);
  const uint64_t wanted = from >= sequence_ ? 0 : std::min(kept, sequence_ - from);
  const uint64_t n = std::min<uint64_t>(wanted, *count);
  for (uint64_t i = 0; i < n; ++i) {
    // Counted back from the slot after the newest.
    const uint64_t age = n - i;
    out[i] = ring_[(next_ + capacity_ - age) % capacity_];
    for (int d = out[i].ndim; d < ATALLA_MAX_DIMS; ++d) out[i].sizes[d] = 0;
  }
  *count = n;
}

}  // namespace atalla::sim
