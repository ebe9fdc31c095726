// SPDX-License-Identifier: BSD-3-Clause
//
// A lock for critical sections of a few nanoseconds.
#pragma once

#include <atomic>
#include <thread>

namespace atalla::sim {

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class SpinLock {
 public:
  void lock() {
    for (int spins = 0; locked_.exchange(true, std::memory_order_acquire); ++spins) {
      // A preempted holder needs the core more than we do.
      spins < 64 ? cpu_pause() : std::this_thread::yield();
    }
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

}  // namespace atalla::sim
