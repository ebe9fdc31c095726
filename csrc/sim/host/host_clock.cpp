// SPDX-License-Identifier: BSD-3-Clause
#include "sim/host/host_clock.h"

namespace atalla::sim {
namespace {

constinit std::atomic<uint64_t> current_epoch{1};
constinit thread_local ThreadClock own;
constinit thread_local ThreadClock* current = nullptr;  // null: `own`

ThreadClock& thread_clock() {
  ThreadClock& clock = current == nullptr ? own : *current;
  const uint64_t epoch = current_epoch.load(std::memory_order_relaxed);
  if (clock.epoch != epoch) [[unlikely]]
    clock = {epoch, latest_host_clock.load(std::memory_order_relaxed)};
  return clock;
}

}  // namespace

std::shared_ptr<ThreadClock> own_thread_clock() {
  static constinit thread_local bool ended = false;  // work of a thread's destructors needs no clock that outlives it
  struct Shared {
    ~Shared() {
      own = *clock;
      current = nullptr;
      ended = true;
    }
    std::shared_ptr<ThreadClock> clock = std::make_shared<ThreadClock>(own);
  };
  if (ended) return std::make_shared<ThreadClock>(own);
  static thread_local Shared shared;
  current = shared.clock.get();
  return shared.clock;
}

ActingThread::ActingThread(ThreadClock* clock) : before_(current) { current = clock; }

ActingThread::~ActingThread() { current = before_; }

uint64_t host_clock() { return thread_clock().cycles; }

void lift_host_clock(uint64_t clock) {
  ThreadClock& thread = thread_clock();
  if (clock <= thread.cycles) return;
  thread.cycles = clock;
  uint64_t seen = latest_host_clock.load(std::memory_order_relaxed);
  while (seen < clock && !latest_host_clock.compare_exchange_weak(seen, clock, std::memory_order_relaxed)) {
  }
}

void restart_host_clocks() {
  latest_host_clock.store(0, std::memory_order_relaxed);
  current_epoch.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace atalla::sim
