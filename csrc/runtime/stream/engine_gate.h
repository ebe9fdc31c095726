// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "runtime/c_api/export.h"

namespace atalla::runtime {

// Decides which stream's worker may use the engine of a device: as many run at once as the engine has threads, and of
// those who wait, urgent ones come first. A kernel that runs is never interrupted. Thread-safe.
class ATALLA_RUNTIME_API EngineGate {
 public:
  void enter(bool urgent);
  void leave();
  uint32_t waiting();  // streams that would run now if the engine had more threads

 private:
  bool may_enter(bool urgent) const;

  std::mutex mutex_;
  std::condition_variable urgent_turn_;
  std::condition_variable normal_turn_;
  uint32_t running_ = 0;
  uint32_t urgent_waiting_ = 0;
  uint32_t normal_waiting_ = 0;
};

// Holds the gate for a scope.
class EngineTurn {
 public:
  EngineTurn(EngineGate& gate, bool urgent) : gate_(gate) { gate_.enter(urgent); }
  ~EngineTurn() { gate_.leave(); }
  EngineTurn(const EngineTurn&) = delete;
  EngineTurn& operator=(const EngineTurn&) = delete;

 private:
  EngineGate& gate_;
};

}  // namespace atalla::runtime
