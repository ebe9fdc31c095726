// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/device/error.h"
#include "runtime/stream/command.h"
#include "runtime/stream/meeting.h"
#include "sim/abi/atalla.h"

namespace atalla::runtime {

class EngineGate;
struct EventRecord;
class Stream;

// The queue of one stream, which a worker thread serves in order. The worker starts with the first push.
//
// A push of a launch or copy that finds kCapacity commands queued waits until half of them are done: so a caller that
// runs ahead wakes, and takes a core from the kernels, once in many launches. Records, waits and host calls never wait:
// callers make them with locks held (the allocator's, Python's) that a queued host call may need.
//
// A failing command stops the queue: launches, copies and host calls are dropped until take_fault; event records and
// waits still happen, so that nobody waits for ever. Thread-safe.
class LaunchQueue {
 public:
  static constexpr uint64_t kCapacity = 256;

  explicit LaunchQueue(const Stream& stream);
  ~LaunchQueue();  // drops what is queued
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  void push_launch(const atalla_launch_desc& desc);  // copies the part that the operand count uses
  // `staged`: host memory that the copy reads, and that the command owns from here on.
  void push_copy(const atalla_copy_params& params, std::unique_ptr<char[]> staged = nullptr);
  void push_record(EventRecord* record);  // takes a reference of its own
  void push_wait(EventRecord* record);
  // A call that throws is a fault of the stream.
  void push_call(std::function<void()> call);
  void push_meeting(MeetingCall call);

  // Whether nothing is queued or running and no fault is kept: work may then be run on the calling thread.
  bool free() const noexcept { return idle() && !faulted_.load(std::memory_order_acquire); }
  bool idle() const noexcept {
    const uint64_t done = done_.load(std::memory_order_acquire);
    return done == pushed_.load(std::memory_order_acquire);
  }
  void drain();  // until what is queued now has been executed
  std::optional<Error> fault() const;
  std::optional<Error> take_fault();  // and start anew
  // Drops what is queued from now on, for good.
  void abandon() noexcept { abandoned_.store(true, std::memory_order_relaxed); }
  void stop();  // after abandon: ends the worker. Later pushes throw

 private:
  template <class Fill>
  void push(Command* command, Fill&& submit);
  void start_worker();
  void wait_for_space(std::unique_lock<std::mutex>& lock);
  void wait_until_done(uint64_t position);
  void serve();
  Command* next_after(Command* last);
  void execute(Command& command);
  atalla_status run(Command& command);
  void recycle(Command* command) noexcept;
  void keep_fault(Error fault);
  Error fault_of(const Command& command, atalla_status status) const;

  const int64_t id_;
  const atalla_stream stream_;
  EngineGate& gate_;
  const bool urgent_;

  std::mutex push_mutex_;  // of those who push; the order of simulated time
  CommandStore<Command> small_;
  CommandStore<LaunchCommand> large_;
  Command* last_;          // the latest command pushed
  uint64_t launches_ = 0;  // pushed

  std::atomic<uint64_t> pushed_{0};  // commands ever pushed
  std::atomic<uint64_t> done_{0};    // commands ever executed
  std::atomic<bool> faulted_{false};
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> stopping_{false};

  // A thread that is about to sleep says so first and then looks again; the other side changes what it looks at first
  // and then whether someone sleeps. All four are sequentially consistent, so one of the two sees the other.
  mutable std::mutex sleep_mutex_;
  std::condition_variable work_;      // for the worker
  std::condition_variable progress_;  // for those who wait for commands
  std::atomic<bool> worker_sleeps_{false};
  std::atomic<uint64_t> wake_at_{UINT64_MAX};  // the first position that somebody sleeps for
  std::optional<Error> fault_;                 // under sleep_mutex_
  Command* served_;                            // the worker's: the latest command executed
  std::thread worker_;
};

}  // namespace atalla::runtime
