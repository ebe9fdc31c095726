// SPDX-License-Identifier: BSD-3-Clause
#include "sim/time/journal.h"

#include <unordered_set>

#include "sim/device/charges.h"
#include "sim/device/device.h"
#include "sim/device/stream.h"
#include "sim/memory/copy.h"

namespace atalla::sim {
namespace {

constexpr size_t kOtherBytes = 192;             // with what the function keeps
constexpr size_t kMostBytes = size_t{1} << 30;  // of a program that never looks

}  // namespace

Journal& journal() {
  static auto* const all = new Journal;  // used until the very end of the process
  return *all;
}

uint32_t Journal::own_thread() {
  static constinit thread_local uint64_t epoch = 0;
  static constinit thread_local uint32_t number = 0;
  if (epoch != epoch_) {
    epoch = epoch_;
    number = static_cast<uint32_t>(threads_.size());
    threads_.push_back(own_thread_clock());
  }
  return number;
}

bool Journal::waits(const Entry& entry) {
  return entry.step == Step::kLaunch && !static_cast<const KindCharge*>(entry.what)->told();
}

void Journal::push(Entry entry, size_t bytes) {
  if (journal_bytes.load(std::memory_order_relaxed) > kMostBytes) take(true);
  entry.thread = own_thread();
  if (entry.step == Step::kLaunch) entry.device->telemetry().expect_launch();
  entries_.push_back(entry);
  journal_bytes.store(journal_bytes.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
}

void Journal::add(const Entry& entry) {
  const std::lock_guard lock(mutex_);
  if (!entries_.empty() || waits(entry)) return push(entry, sizeof entry);
  take_one(entry);
}

void Journal::launch(const KindCharge& kind, StreamClock* clock, uint32_t stream, uint64_t tag) {
  add({.step = Step::kLaunch, .stream = stream, .device = kind.device, .clock = clock, .what = &kind, .tag = tag});
}

void Journal::copy(Device& device, StreamClock* clock, uint32_t stream, uint64_t tag, const CopyShape& shape) {
  add({.step = Step::kCopy,
       .stream = stream,
       .device = &device,
       .clock = clock,
       .tag = tag,
       .rows = shape.rows,
       .row_bytes = shape.row_bytes,
       .copy = shape.kind});
}

void Journal::settle_host(Device& device, StreamClock* clock) {
  add({.step = Step::kSettleHost, .device = &device, .clock = clock});
}

void Journal::wait_on_host(const EventSlot& event) { add({.step = Step::kWaitOnHost, .what = &event}); }

void Journal::stamp(Device& device, StreamClock* clock, EventSlot* event) {
  add({.step = Step::kStamp, .device = &device, .clock = clock, .what = event});
}

void Journal::wait(Device& device, StreamClock* clock, const EventSlot& event) {
  add({.step = Step::kWait, .device = &device, .clock = clock, .what = &event});
}

void Journal::append(std::function<void()> step) {
  const std::lock_guard lock(mutex_);
  if (entries_.empty()) return step();
  others_.push_back(std::move(step));
  push({.step = Step::kOther}, kOtherBytes);
}

void Journal::take_one(const Entry& entry) {
  const auto event = [&] { return static_cast<const EventSlot*>(entry.what); };
  switch (entry.step) {
    case Step::kLaunch: {
      const auto& kind = *static_cast<const KindCharge*>(entry.what);
      return entry.device->telemetry().record_launch(entry.clock, entry.stream, kind.head, entry.tag, kind.value());
    }
    case Step::kCopy: {
      const CopyShape shape{.kind = entry.copy,
                            .reads = entry.copy != ATALLA_COPY_HOST_TO_DEVICE,
                            .writes = entry.copy != ATALLA_COPY_DEVICE_TO_HOST,
                            .row_bytes = entry.row_bytes,
                            .rows = entry.rows};
      entry.device->telemetry().record_copy(entry.clock, entry.stream, entry.tag, price_copy(*entry.device, shape));
      return;
    }
    case Step::kSettleHost:
      return lift_host_clock(entry.device->telemetry().settle(entry.clock));
    case Step::kWaitOnHost:
      if (const auto reached = event()->get()) lift_host_clock(reached->resolved());
      return;
    case Step::kStamp:
      return const_cast<EventSlot*>(event())->set(entry.device->telemetry().read(*entry.clock));
    case Step::kWait:
      if (auto reached = event()->get()) entry.device->telemetry().lift(entry.clock, std::move(*reached));
      return;
    case Step::kOther:
      others_.front()();
      others_.pop_front();
  }
}

std::vector<std::shared_ptr<const KindCharge>> Journal::unknown() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const KindCharge>> found;
  std::unordered_set<const void*> seen;
  for (const Entry& entry : entries_) {
    if (waits(entry) && seen.insert(entry.what).second)
      found.push_back(static_cast<const KindCharge*>(entry.what)->shared_from_this());
  }
  return found;
}

void Journal::settle(bool all) {
  const std::lock_guard lock(mutex_);
  take(all);
}

void Journal::take(bool all) {
  size_t bytes = journal_bytes.load(std::memory_order_relaxed);
  for (; !entries_.empty(); entries_.pop_front()) {
    const Entry& entry = entries_.front();
    if (waits(entry) && !all) break;
    const ActingThread acting(threads_[entry.thread].get());
    take_one(entry);
    if (entry.step == Step::kLaunch) entry.device->telemetry().forget_expected();
    bytes -= entry.step == Step::kOther ? kOtherBytes : sizeof entry;
  }
  if (entries_.empty()) {
    threads_.clear();
    ++epoch_;
  }
  journal_bytes.store(bytes, std::memory_order_release);
}

}  // namespace atalla::sim
