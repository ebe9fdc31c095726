// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "runtime/device/runtime.h"

namespace driver_test {

// Holds a stream up until it is opened: what is submitted behind it stays queued, however fast the machine is.
class Gate {
 public:
  explicit Gate(atalla::runtime::Stream& stream) {
    stream.host_call([state = state_] {
      std::unique_lock lock(state->mutex);
      state->entered = true;
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return state->open; });
    });
  }
  ~Gate() { open(); }
  void open() {
    std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }
  // Until the stream stands at the gate.
  void wait_entered() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->entered; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false, entered = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();  // the call may outlive the gate
};

}  // namespace driver_test
