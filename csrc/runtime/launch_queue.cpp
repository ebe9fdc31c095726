// SPDX-License-Identifier: BSD-3-Clause
#include "launch_queue.h"

#include <cstring>
#include <system_error>
#include <utility>

#include "api.h"
#include "event_pool.h"

namespace atalla::runtime {

static_assert((LaunchQueue::kCapacity & (LaunchQueue::kCapacity - 1)) == 0);

LaunchQueue::LaunchQueue(atalla_stream stream)
    : stream_(stream), slots_(std::make_unique_for_overwrite<Slot[]>(kCapacity)) {}

LaunchQueue::~LaunchQueue() {
  abandon();
  stop();
}

void LaunchQueue::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  if (worker_.joinable()) worker_.join();
}

template <class Fill>
void LaunchQueue::push(Fill&& fill) {
  {
    std::unique_lock lock(mutex_);
    if (stopping_) throw Error(ATALLA_ERR_SYSTEM, "work was queued on a stream while the process was ending");
    if (!worker_.joinable()) {
      try {
        worker_ = std::thread([this] { serve(); });
      } catch (const std::system_error& error) {
        throw Error(ATALLA_ERR_SYSTEM, std::string("cannot start a stream's worker thread: ") + error.what());
      }
    }
    space_.wait(lock, [&] {
      return pushed_.load(std::memory_order_relaxed) - done_.load(std::memory_order_relaxed) < kCapacity;
    });
    fill(slots_[pushed_.load(std::memory_order_relaxed) & (kCapacity - 1)]);
    pushed_.fetch_add(1, std::memory_order_release);
  }
  work_.notify_one();
}

void LaunchQueue::push_launch(const atalla_launch_desc& desc) {
  if (desc.n_operands > ATALLA_MAX_OPERANDS) {
    throw Error(ATALLA_ERR_ARGUMENT, "a launch of " + std::to_string(desc.n_operands) + " operands, at most " +
                                         std::to_string(ATALLA_MAX_OPERANDS) + " are possible");
  }
  push([&](Slot& slot) {
    slot.kind = Kind::kLaunch;
    std::memcpy(static_cast<void*>(&slot.launch), &desc, atalla_launch_desc_bytes(desc.n_operands));
  });
}

void LaunchQueue::push_copy(const atalla_copy_params& params) {
  push([&](Slot& slot) {
    slot.kind = Kind::kCopy;
    slot.copy = params;
  });
}

void LaunchQueue::push_record(EventRecord* record) {
  push([&](Slot& slot) {
    slot.kind = Kind::kRecord;
    slot.record = record;
    record->retain();
  });
}

void LaunchQueue::push_wait(EventRecord* record) {
  push([&](Slot& slot) {
    slot.kind = Kind::kWait;
    slot.record = record;
    record->retain();
  });
}

void LaunchQueue::drain() {
  std::unique_lock lock(mutex_);
  const uint64_t target = pushed_.load(std::memory_order_relaxed);  // not what others push meanwhile
  space_.wait(lock, [&] { return done_.load(std::memory_order_relaxed) >= target; });
}

std::optional<Error> LaunchQueue::fault() const {
  if (!faulted_.load(std::memory_order_acquire)) return std::nullopt;
  std::lock_guard lock(mutex_);
  return fault_;
}

std::optional<Error> LaunchQueue::take_fault() {
  if (!faulted_.load(std::memory_order_acquire)) return std::nullopt;
  std::lock_guard lock(mutex_);
  faulted_.store(false, std::memory_order_release);
  return std::exchange(fault_, std::nullopt);
}

void LaunchQueue::serve() {
  uint64_t position = 0;
  for (;;) {
    uint64_t available;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return stopping_ || pushed_.load(std::memory_order_relaxed) != position; });
      available = pushed_.load(std::memory_order_relaxed);
      if (available == position) return;  // stopping, and nothing is left
    }
    for (; position != available; ++position) {
      execute(slots_[position & (kCapacity - 1)]);
      {
        std::lock_guard lock(mutex_);
        done_.fetch_add(1, std::memory_order_release);
      }
      space_.notify_all();
    }
  }
}

void LaunchQueue::execute(Slot& slot) {
  const bool drop = faulted_.load(std::memory_order_relaxed) || abandoned_.load(std::memory_order_relaxed);
  const atalla_api& chip = api();
  atalla_status status = ATALLA_OK;
  switch (slot.kind) {
    case Kind::kLaunch:
      if (!drop) status = chip.launch(stream_, &slot.launch, atalla_launch_desc_bytes(slot.launch.n_operands));
      break;
    case Kind::kCopy:
      if (!drop) status = chip.copy(stream_, &slot.copy);
      break;
    case Kind::kRecord:
      status = slot.record->pool->submit(slot.record, stream_);
      EventPool::release(slot.record);
      break;
    case Kind::kWait:
      slot.record->pool->wait_submitted(slot.record);
      if (slot.record->state.load(std::memory_order_acquire) == EventRecord::State::kReached)
        status = chip.stream_wait_event(stream_, slot.record->handle);
      EventPool::release(slot.record);
      break;
  }
  if (status != ATALLA_OK) keep_fault(status);
}

void LaunchQueue::keep_fault(atalla_status status) {
  const char* text = api().last_error();  // of this thread: nobody else can read it later
  std::lock_guard lock(mutex_);
  if (fault_.has_value()) return;  // the first one is the cause
  fault_.emplace(status, text != nullptr && *text != '\0' ? text : "the device library gave no reason");
  faulted_.store(true, std::memory_order_release);
}

}  // namespace atalla::runtime
