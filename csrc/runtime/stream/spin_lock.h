// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sched.h>

#include <atomic>

namespace atalla::runtime {

// For sections of tens of nanoseconds, where a mutex would cost as much as the work. Waiters yield after a while,
// because the rare slow section (a new segment) is longer.
class SpinLock {
 public:
  void lock() noexcept {
    int spins = 0;
    while (locked_.exchange(true, std::memory_order_acquire)) {
      while (locked_.load(std::memory_order_relaxed)) {
        if (++spins > 64) sched_yield();
      }
    }
  }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

// The opposite of a lock guard: lets go of a lock that the caller holds.
class Unlocked {
 public:
  explicit Unlocked(SpinLock& lock) noexcept : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace atalla::runtime
