// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "../sim/atalla.h"
#include "error.h"

namespace atalla::runtime {

struct EventRecord;

// The queue of one stream: a ring of preallocated slots which a worker thread serves in order. The worker starts with
// the first push. A push into a full ring waits until a slot is free. A failing launch or copy stops the queue: later
// launches and copies are dropped until take_fault; event records and waits still happen, so that nobody waits for
// ever. Thread-safe.
class LaunchQueue {
 public:
  static constexpr uint64_t kCapacity = 256;  // slots; a power of two

  explicit LaunchQueue(atalla_stream stream);
  ~LaunchQueue();  // drops what is queued
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  void push_launch(const atalla_launch_desc& desc);  // copies the part that the operand count uses
  void push_copy(const atalla_copy_params& params);
  void push_record(EventRecord* record);  // takes a reference of its own
  void push_wait(EventRecord* record);

  bool idle() const noexcept {
    return done_.load(std::memory_order_acquire) == pushed_.load(std::memory_order_acquire);
  }
  void drain();  // until idle
  std::optional<Error> fault() const;
  std::optional<Error> take_fault();  // and start anew
  // Drops queued launches and copies from now on, for good.
  void abandon() noexcept { abandoned_.store(true, std::memory_order_relaxed); }
  void stop();  // after abandon: ends the worker

 private:
  enum class Kind : uint8_t { kLaunch, kCopy, kRecord, kWait };
  struct Slot {
    Kind kind;
    union {
      atalla_launch_desc launch;
      atalla_copy_params copy;
      EventRecord* record;
    };
  };
  template <class Fill>
  void push(Fill&& fill);
  void serve();
  void execute(Slot& slot);
  void keep_fault(atalla_status status);

  const atalla_stream stream_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint64_t> pushed_{0};  // slots ever filled; written under mutex_
  std::atomic<uint64_t> done_{0};    // slots ever executed; written under mutex_
  std::atomic<bool> faulted_{false};
  std::atomic<bool> abandoned_{false};
  mutable std::mutex mutex_;
  std::condition_variable work_;   // for the worker: a slot was filled, or stop
  std::condition_variable space_;  // for others: a slot was executed
  std::optional<Error> fault_;
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace atalla::runtime
