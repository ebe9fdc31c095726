// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/event.h"

#include <string>
#include <utility>

#include "runtime/device/api.h"
#include "runtime/device/device.h"
#include "runtime/device/error.h"
#include "runtime/stream/event_pool.h"
#include "runtime/stream/stream.h"

namespace atalla::runtime {

Event::Event(Device& device) : device_(&device) {}

Event::~Event() {
  if (record_ != nullptr) EventPool::release(record_);
}

Event::Event(Event&& other) noexcept : device_(other.device_), record_(std::exchange(other.record_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(record_, other.record_);
  return *this;
}

void Event::record(Stream& stream) {
  if (&stream.device() != device_) {
    throw Error(ATALLA_ERR_ARGUMENT, "an event of device " + std::to_string(device_->ordinal()) +
                                         " cannot be recorded on a stream of device " +
                                         std::to_string(stream.device().ordinal()));
  }
  EventRecord* record = device_->event_pool().acquire();
  try {
    stream.record(record);
  } catch (...) {
    EventPool::release(record);
    throw;
  }
  if (record_ != nullptr) EventPool::release(record_);
  record_ = record;
}

void Event::block(Stream& stream) {
  if (record_ != nullptr) stream.wait(record_);
}

bool Event::query() const { return record_ == nullptr || record_->pool->done(record_); }

void Event::synchronize() const {
  if (record_ != nullptr) record_->pool->synchronize(record_);
}

uint64_t Event::cycles() const {
  if (record_ == nullptr) throw Error(ATALLA_ERR_ARGUMENT, "the event has not been recorded");
  if (!record_->pool->done(record_))
    throw Error(ATALLA_NOT_READY, "the work before the event is still running; synchronize the event first");
  if (record_->refused.load(std::memory_order_acquire))
    throw Error(ATALLA_ERR_ARGUMENT, "the device refused the event; the fault of its stream says why");
  uint64_t cycles = 0;
  check(api().event_cycles(record_->handle, &cycles));
  return cycles;
}

double Event::elapsed_ms(const Event& end) const {
  if (device_ != end.device_) {
    throw Error(ATALLA_ERR_ARGUMENT, "elapsed time between events of two devices (" +
                                         std::to_string(device_->ordinal()) + " and " +
                                         std::to_string(end.device_->ordinal()) + "): each has a clock of its own");
  }
  const double cycles = static_cast<double>(static_cast<int64_t>(end.cycles() - this->cycles()));
  return cycles / device_->properties().clock_hz * 1e3;
}

}  // namespace atalla::runtime
