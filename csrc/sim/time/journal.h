// SPDX-License-Identifier: BSD-3-Clause
//
// Steps in simulated time that wait for a charge. A launch whose charge nobody has told yet takes its place in time
// when somebody looks at a clock; until then it, and whatever follows it on any device, stand here in order of
// submission. docs/concepts/timing.md explains it.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/host/host_clock.h"
#include "sim/time/telemetry.h"

namespace atalla::sim {

class Device;
struct EventSlot;
struct KindCharge;

// Bytes that the steps take, about.
inline constinit std::atomic<size_t> journal_bytes{0};
inline bool are_steps_waiting() { return journal_bytes.load(std::memory_order_acquire) != 0; }

// Thread-safe. A step is taken at once if none stands before it, and a launch if its charge is told; otherwise it is
// taken in its turn, as the thread that added it. What it refers to must stay as long as the devices.
class Journal {
 public:
  // A launch of a kind. The model's charge counts if no code tells.
  void launch(const KindCharge& kind, StreamClock* clock, uint32_t stream, uint64_t tag);
  void copy(Device& device, StreamClock* clock, uint32_t stream, uint64_t tag, const CopyShape& shape);
  void settle_host(Device& device, StreamClock* clock);  // the thread has waited for a stream
  void wait_on_host(const EventSlot& event);             // and for an event
  void stamp(Device& device, StreamClock* clock, EventSlot* event);
  void wait(Device& device, StreamClock* clock, const EventSlot& event);
  void append(std::function<void()> step);

  // The kinds that launches wait for.
  std::vector<std::shared_ptr<const KindCharge>> unknown() const;
  // Takes the steps up to the first that waits for a charge, or (`all`) every step, with the model's charges. So it
  // does before the steps take more than 1 GiB.
  void settle(bool all);

 private:
  enum class Step : uint32_t { kLaunch, kCopy, kSettleHost, kWaitOnHost, kStamp, kWait, kOther };
  struct Entry {
    Step step;
    uint32_t stream = 0;
    Device* device = nullptr;
    StreamClock* clock = nullptr;
    const void* what = nullptr;  // the kind or the event
    uint64_t tag = 0;
    uint64_t rows = 0;  // of a copy, and the next two
    uint64_t row_bytes = 0;
    uint32_t copy = 0;
    uint32_t thread = 0;  // of threads_
  };
  static bool waits(const Entry& entry);
  void add(const Entry& entry);
  void push(Entry entry, size_t bytes);
  void take(bool all);
  void take_one(const Entry& entry);
  uint32_t own_thread();

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  std::deque<std::function<void()>> others_;
  std::vector<std::shared_ptr<ThreadClock>> threads_;
  uint64_t epoch_ = 1;  // grows when threads_ becomes empty
};

// Of all devices: their work is ordered by copies between them, and by the threads that wait for it.
Journal& journal();

}  // namespace atalla::sim
