// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stream/engine_gate.h"

#include <algorithm>

#include "runtime/device/api.h"

namespace atalla::runtime {

// The number of threads may change while the process runs, so it is asked for each time.
bool EngineGate::may_enter(bool urgent) const {
  uint32_t threads = 1;
  (void)api().get_threads(&threads);
  return running_ < std::max<uint32_t>(threads, 1) && (urgent || urgent_waiting_ == 0);
}

void EngineGate::enter(bool urgent) {
  std::unique_lock lock(mutex_);
  if (!may_enter(urgent)) {
    uint32_t& waiting = urgent ? urgent_waiting_ : normal_waiting_;
    ++waiting;
    (urgent ? urgent_turn_ : normal_turn_).wait(lock, [&] { return may_enter(urgent); });
    --waiting;
    // More places than one may have become free while only this waiter was told.
    if (urgent_waiting_ == 0) normal_turn_.notify_one();
  }
  ++running_;
}

void EngineGate::leave() {
  std::lock_guard lock(mutex_);
  --running_;
  (urgent_waiting_ != 0 ? urgent_turn_ : normal_turn_).notify_one();
}

uint32_t EngineGate::waiting() {
  std::lock_guard lock(mutex_);
  return urgent_waiting_ + normal_waiting_;
}

}  // namespace atalla::runtime
