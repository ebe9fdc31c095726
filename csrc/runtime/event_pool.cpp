// SPDX-License-Identifier: BSD-3-Clause
#include "event_pool.h"

#include "api.h"
#include "device.h"
#include "error.h"

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
  record->state.store(EventRecord::State::kQueued, std::memory_order_relaxed);
  record->references.store(1, std::memory_order_relaxed);
  return record;
}

void EventPool::release(EventRecord* record) noexcept {
  if (record->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  EventPool& pool = *record->pool;
  std::lock_guard lock(pool.mutex_);
  pool.unused_.push_back(record);
}

atalla_status EventPool::submit(EventRecord* record, atalla_stream stream) {
  const atalla_status status = api().event_record(record->handle, stream);
  {
    std::lock_guard lock(mutex_);
    record->state.store(status == ATALLA_OK ? EventRecord::State::kReached : EventRecord::State::kFailed,
                        std::memory_order_release);
  }
  submitted_.notify_all();
  return status;
}

void EventPool::wait_submitted(const EventRecord* record) {
  if (record->state.load(std::memory_order_acquire) != EventRecord::State::kQueued) return;
  std::unique_lock lock(mutex_);
  submitted_.wait(lock, [&] { return record->state.load(std::memory_order_acquire) != EventRecord::State::kQueued; });
}

bool EventPool::done(const EventRecord* record) {
  switch (record->state.load(std::memory_order_acquire)) {
    case EventRecord::State::kQueued:
      return false;
    case EventRecord::State::kFailed:
      return true;
    case EventRecord::State::kReached:
      break;
  }
  const atalla_status status = api().event_query(record->handle);
  if (status == ATALLA_NOT_READY) return false;
  check(status);
  return true;
}

void EventPool::synchronize(const EventRecord* record) {
  wait_submitted(record);
  if (record->state.load(std::memory_order_acquire) == EventRecord::State::kReached)
    check(api().event_synchronize(record->handle));
}

}  // namespace atalla::runtime
