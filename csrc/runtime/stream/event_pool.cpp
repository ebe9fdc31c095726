// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/event_pool.h"

#include "runtime/device/api.h"
#include "runtime/device/device.h"
#include "runtime/device/error.h"
#include "runtime/device/fork.h"
#include "runtime/graph/capture.h"
#include "runtime/stream/async_fault.h"
#include "runtime/stream/spin.h"

namespace atalla::runtime {

EventRecord* EventPool::acquire() {
  std::lock_guard lock(mutex_);
  EventRecord* record = nullptr;
  if (!unused_.empty()) {
    record = unused_.back();
    unused_.pop_back();
  } else {
    atalla_event handle = nullptr;
    check(api().event_create(device_.handle(), &handle));
    unused_.reserve(records_.size() + 1);  // so that release never allocates
    record = &records_.emplace_back();
    record->pool = this;
    record->handle = handle;
  }
  record->reached.store(false, std::memory_order_relaxed);
  record->refused.store(false, std::memory_order_relaxed);
  record->references.store(1, std::memory_order_relaxed);
  return record;
}

void EventPool::release(EventRecord* record) noexcept {
  if (record->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  record->capture.reset();
  EventPool& pool = *record->pool;
  std::lock_guard lock(pool.mutex_);
  pool.unused_.push_back(record);
}

atalla_status EventPool::stamp(EventRecord* record, atalla_stream stream) {
  const atalla_status status = api().event_record(record->handle, stream);
  if (status != ATALLA_OK) record->refused.store(true, std::memory_order_release);
  return status;
}

atalla_status EventPool::advance_clock(EventRecord* record, atalla_stream stream) {
  if (record->refused.load(std::memory_order_acquire)) return ATALLA_OK;
  return api().stream_wait_event(stream, record->handle);
}

// Who sleeps has said so before it looked at `reached` for the last time, and here it is set before sleepers are looked
// for; all sequentially consistent, so one of the two sees the other.
atalla_status EventPool::reach(EventRecord* record, atalla_stream stream) {
  const atalla_status status = stream != nullptr ? stamp(record, stream) : ATALLA_OK;
  record->reached.store(true, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    {
      std::lock_guard lock(mutex_);
    }
    reached_.notify_all();
  }
  return status;
}

void EventPool::wait_reached(const EventRecord* record) {
  const auto look = [&] { return record->reached.load(std::memory_order_seq_cst); };
  if (look()) return;
  refuse_after_fork();
  if (spin_until(look)) return;
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  reached_.wait(lock, look);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

bool EventPool::done(const EventRecord* record) {
  if (record->capture != nullptr) throw Error(ATALLA_ERR_ARGUMENT, kCapturedEvent);
  if (!record->reached.load(std::memory_order_acquire)) return false;
  if (charges_at_submission() || record->refused.load(std::memory_order_acquire)) return true;
  const atalla_status status = api().event_query(record->handle);
  if (status == ATALLA_NOT_READY) return false;
  check(status);
  return true;
}

void EventPool::synchronize(const EventRecord* record) {
  if (record->capture != nullptr) throw Error(ATALLA_ERR_ARGUMENT, kCapturedEvent);
  wait_reached(record);
  // The chip learns that the host has waited until then.
  if (!record->refused.load(std::memory_order_acquire)) check(api().event_synchronize(record->handle));
  throw_async_fault(device_);
}

}  // namespace atalla::runtime
