// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/telemetry.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "sim/host/host_clock.h"

namespace atalla::sim {

Telemetry::Telemetry(size_t capacity, const EnergyModel& energy) : capacity_(capacity), energy_(energy) {
  void* memory =
      mmap(nullptr, capacity * sizeof(atalla_work_record), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ring_ = static_cast<atalla_work_record*>(memory);
}

Telemetry::~Telemetry() { munmap(ring_, capacity_ * sizeof(atalla_work_record)); }

void fill_head(const atalla_launch_desc& desc, atalla_launch_record* record) {
  record->tag = desc.tag;
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

void fill_charge(const LaunchCharge& charge, atalla_launch_record* record) {
  record->cycles = charge.time.cycles;
  record->sdma_cycles = charge.time.sdma_cycles;
  record->vector_cycles = charge.time.vector_cycles;
  record->array_cycles = charge.time.array_cycles;
  record->dram_bytes_read = charge.bytes_read;
  record->dram_bytes_written = charge.bytes_written;
  record->macs = charge.macs;
}

Placement Telemetry::place(StreamClock* clock, const Charge& charge) {
  const Placement placed = schedule_.place(not_before_host(std::max(clock->cycles, floor_)), charge);
  if (!starts_.empty()) [[unlikely]]
    starts_[next_] = {placed.start, clock->meeting, clock->after};
  clock->cycles = placed.end;
  clock->after += placed.end - placed.start;
  horizon_ = std::max(horizon_, placed.end);
  return placed;
}

// Makes memory ready for the next records. Some at a time: less than page faults would cost, and no more than a program
// needs.
[[gnu::noinline]] void Telemetry::populate() {
  constexpr size_t kRecords = 256;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), more = std::min(kRecords, capacity_ - ready_);
  char* const begin = reinterpret_cast<char*>(ring_) + ready_ * sizeof(atalla_work_record) / page * page;
  const auto end = reinterpret_cast<char*>(ring_ + ready_ + more);
  (void)madvise(begin, static_cast<size_t>(end - begin), MADV_POPULATE_WRITE);  // else the faults
  ready_ += more;
}

atalla_work_record& Telemetry::next_record(const Placement& placed, uint32_t kind, uint32_t stream) {
  if (next_ == ready_) [[unlikely]]
    populate();
  atalla_work_record& record = ring_[next_];
  if (++next_ == capacity_) next_ = 0;
  record.sequence = sequence_++;
  record.end_cycle = placed.end;
  record.sdma = placed.sdma;
  record.vector = placed.vector;
  record.array = placed.array;
  record.kind = kind;
  record.work.sequence = launches_;
  record.work.start_cycle = placed.start;
  record.work.stream = stream;
  return record;
}

template <class Fill>
inline void Telemetry::record(StreamClock* clock, uint32_t stream, const LaunchCharge& charge, const Fill& fill) {
  const std::lock_guard lock(lock_);
  const Placement placed = place(clock, charge.time);
  atalla_work_record& record = next_record(placed, ATALLA_WORK_LAUNCH, stream);
  record.energy = charge.energy;
  record.scratchpad_bytes = charge.time.scratchpad_bytes;
  fill(&record.work);
  fill_charge(charge, &record.work);
  ++launches_;
  counters_.launches += 1;
  counters_.cycles += charge.time.cycles;
  if (charge.assumed) counters_.assumed_cycles += charge.time.cycles;
  counters_.sdma_cycles += charge.time.sdma_cycles;
  counters_.vector_cycles += charge.time.vector_cycles;
  counters_.array_cycles += charge.time.array_cycles;
  counters_.dram_bytes_read += charge.bytes_read;
  counters_.dram_bytes_written += charge.bytes_written;
  counters_.macs += charge.macs;
  atalla_energy_add(&counters_.energy, &charge.energy);
}

void Telemetry::record_launch(StreamClock* clock, uint32_t stream, const atalla_launch_desc& desc,
                              const LaunchCharge& charge) {
  record(clock, stream, charge, [&](atalla_launch_record* work) { fill_head(desc, work); });
}

void Telemetry::record_launch(StreamClock* clock, uint32_t stream, const atalla_launch_record& head, uint64_t tag,
                              const LaunchCharge& charge) {
  record(clock, stream, charge, [&](atalla_launch_record* work) {
    work->tag = tag;
    work->kernel = head.kernel;
    work->n_operands = head.n_operands;
    work->dtype = head.dtype;
    work->ndim = head.ndim;
    for (int d = 0; d < head.ndim; ++d) work->sizes[d] = head.sizes[d];
  });
}

atalla_energy copy_energy(const EnergyModel& energy, const CopyShape& shape, const Charge& time) {
  const uint64_t bytes = shape.row_bytes * shape.rows;
  const uint64_t read = shape.reads ? bytes : 0, written = shape.writes ? bytes : 0;
  EnergyEvents events;
  energy.move(read, written, &events);
  events.touched_bytes = read + written;  // each row enters a scratchpad and leaves it
  if (time.link_cycles != 0) events.link_bytes = read + written;
  return energy.of(events);
}

Placement Telemetry::record_copy(StreamClock* clock, uint32_t stream, uint64_t tag, const CopyCharge& copy) {
  const CopyShape& shape = copy.shape;
  const Charge& time = copy.time;
  const uint64_t bytes = shape.row_bytes * shape.rows;
  const std::lock_guard lock(lock_);
  const Placement placed = place(clock, time);
  atalla_work_record& record = next_record(placed, shape.kind, stream);
  record.energy = copy.energy;
  record.scratchpad_bytes = 0;
  atalla_launch_record& work = record.work;
  work.tag = tag;
  work.cycles = time.cycles;
  work.sdma_cycles = time.sdma_cycles;
  work.vector_cycles = work.array_cycles = work.macs = 0;
  work.dram_bytes_read = shape.reads ? bytes : 0;
  work.dram_bytes_written = shape.writes ? bytes : 0;
  work.kernel = ATALLA_NO_KERNEL;
  work.n_operands = 0;
  work.dtype = ATALLA_U8;
  work.ndim = 2;
  work.sizes[0] = static_cast<int64_t>(shape.rows);
  work.sizes[1] = static_cast<int64_t>(shape.row_bytes);
  atalla_energy_add(&counters_.energy, &copy.energy);
  counters_.copies += 1;
  counters_.cycles += time.cycles;
  counters_.sdma_cycles += time.sdma_cycles;
  counters_.dram_bytes_read += work.dram_bytes_read;
  counters_.dram_bytes_written += work.dram_bytes_written;
  counters_.host_bytes_to_device += shape.kind == ATALLA_COPY_HOST_TO_DEVICE ? bytes : 0;
  counters_.host_bytes_from_device += shape.kind == ATALLA_COPY_DEVICE_TO_HOST ? bytes : 0;
  return placed;
}

Instant Telemetry::read(const StreamClock& clock) const {
  const std::lock_guard lock(lock_);
  return {not_before_host(std::max(clock.cycles, floor_)), clock.meeting, clock.after};
}

void Telemetry::lift(StreamClock* clock, Instant instant) {
  const std::lock_guard lock(lock_);
  *clock = later(std::move(*clock), std::move(instant));
}

void Telemetry::reset(StreamClock* clock) {
  const std::lock_guard lock(lock_);
  *clock = {};
}

std::shared_ptr<Meeting> Telemetry::meet(StreamClock* clock) {
  const std::lock_guard lock(lock_);
  if (starts_.empty()) starts_.resize(capacity_);
  clock->cycles = not_before_host(std::max(clock->cycles, floor_));
  auto meeting = std::make_shared<Meeting>(*clock);
  *clock = {clock->cycles, meeting, 0};
  return meeting;
}

uint64_t Telemetry::settle(StreamClock* clock) {
  const std::lock_guard lock(lock_);
  if (clock->meeting != nullptr) [[unlikely]] {
    clock->cycles = clock->resolved();
    if (clock->known()) clock->meeting.reset();
    horizon_ = std::max(horizon_, clock->cycles);
  }
  return not_before_host(std::max(clock->cycles, floor_));
}

uint64_t Telemetry::barrier() {
  const std::lock_guard lock(lock_);
  floor_ = horizon_;
  schedule_.forget_before(floor_);
  return floor_;
}

uint64_t Telemetry::launches() const {
  const std::lock_guard lock(lock_);
  return launches_ + expected_.load(std::memory_order_relaxed);
}

atalla_counters Telemetry::counters() const {
  const std::lock_guard lock(lock_);
  atalla_counters value = counters_;
  value.clock = horizon_;
  const atalla_energy idle = energy_.idle(horizon_ - counted_from_);
  atalla_energy_add(&value.energy, &idle);
  return value;
}

void Telemetry::reset_counters() {
  const std::lock_guard lock(lock_);
  counters_ = {};
  counted_from_ = horizon_;
}

atalla_work_record Telemetry::kept(uint64_t sequence) const {
  atalla_work_record record = ring_[slot(sequence)];
  if (starts_.empty()) return record;
  const uint64_t late = starts_[slot(sequence)].resolved() - starts_[slot(sequence)].cycles;
  record.work.start_cycle += late;
  record.end_cycle += late;
  for (atalla_unit_span* span : {&record.sdma, &record.vector, &record.array}) {
    span->begin += late;
    span->end += late;
  }
  return record;
}

void Telemetry::launch_records(uint64_t from, atalla_launch_record* out, size_t* count) const {
  const std::lock_guard lock(lock_);
  // Backwards over the copies in between, so as to keep the latest ones when not all fit.
  uint64_t first = sequence_;
  size_t n = 0;
  for (uint64_t s = sequence_; s > oldest() && n < *count; --s) {
    const atalla_work_record& record = ring_[slot(s - 1)];
    if (record.kind != ATALLA_WORK_LAUNCH) continue;
    if (record.work.sequence < from) break;
    first = s - 1;
    ++n;
  }
  n = 0;
  for (uint64_t s = first; s < sequence_; ++s) {
    const atalla_work_record record = kept(s);
    if (record.kind != ATALLA_WORK_LAUNCH) continue;
    out[n] = record.work;
    for (int d = out[n].ndim; d < ATALLA_MAX_DIMS; ++d) out[n].sizes[d] = 0;
    ++n;
  }
  *count = n;
}

void Telemetry::work_records(uint64_t from, void* out, size_t record_bytes, size_t* count) const {
  const std::lock_guard lock(lock_);
  const uint64_t begin = std::max(from, oldest());
  const uint64_t n = begin < sequence_ ? std::min<uint64_t>(sequence_ - begin, *count) : 0;
  for (uint64_t i = 0; i < n; ++i) {
    atalla_work_record record = kept(begin + i);
    for (int d = record.work.ndim; d < ATALLA_MAX_DIMS; ++d) record.work.sizes[d] = 0;
    const atalla_energy idle = energy_.idle(record.work.cycles);
    atalla_energy_add(&record.energy, &idle);
    char* place = static_cast<char*>(out) + i * record_bytes;
    std::memcpy(place, &record, std::min(record_bytes, sizeof record));
    if (record_bytes > sizeof record) std::memset(place + sizeof record, 0, record_bytes - sizeof record);
  }
  *count = n;
}

}  // namespace atalla::sim
