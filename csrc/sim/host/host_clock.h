// SPDX-License-Identifier: BSD-3-Clause
//
// How much simulated time a host thread knows to have passed.
//
// Submitting work costs no simulated time, waiting for it does: a thread that has waited for work which ends at cycle
// t submits whatever follows at t or later. Without this, work on a stream that was idle for long would start in the
// past. Each thread has a clock of its own, so that threads which drive different streams do not disturb each other's
// simulated time; a thread that is new starts with the latest clock of all.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

namespace atalla::sim {

// Of one thread.
struct ThreadClock {
  uint64_t epoch = 0;  // which restart it belongs to
  uint64_t cycles = 0;
};

// Of the calling thread, in cycles; 0 at first.
uint64_t host_clock();

// The calling thread's, which may outlive it.
std::shared_ptr<ThreadClock> own_thread_clock();

// While it lives, the calling thread has another thread's clock.
class ActingThread {
 public:
  explicit ActingThread(ThreadClock* clock);
  ~ActingThread();
  ActingThread(const ActingThread&) = delete;
  ActingThread& operator=(const ActingThread&) = delete;

 private:
  ThreadClock* before_;
};

// No thread's clock is beyond it.
inline constinit std::atomic<uint64_t> latest_host_clock{0};

// max(clock, host_clock()), without a look at the thread's own where that cannot matter: a stream that goes on.
inline uint64_t not_before_host(uint64_t clock) {
  return clock >= latest_host_clock.load(std::memory_order_relaxed) ? clock : std::max(clock, host_clock());
}

// The calling thread has waited for work that ends at `clock`.
void lift_host_clock(uint64_t clock);

// All threads start at 0 again: to be called when no device is open.
void restart_host_clocks();

}  // namespace atalla::sim
