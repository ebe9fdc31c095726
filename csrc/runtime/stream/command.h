// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "sim/abi/atalla.h"

namespace atalla::runtime {

struct EventRecord;

// One entry of a stream's queue.
struct Command {
  enum class Kind : uint8_t { kNothing, kLaunch, kCopy, kRecord, kWait, kHostCall };
  std::atomic<Command*> next{nullptr};  // in the queue
  Command* next_unused = nullptr;       // among those to be used again
  Kind kind = Kind::kNothing;
  bool large = false;              // a LaunchCommand
  EventRecord* record = nullptr;   // of kRecord and kWait; a counted reference
  atalla_copy_params copy{};       // of kCopy
  std::unique_ptr<char[]> staged;  // host bytes that the copy reads and the command owns
  std::function<void()> call;      // of kHostCall
};

// Launches carry their descriptor, of which only the used part is copied.
struct LaunchCommand : Command {
  LaunchCommand() noexcept { large = true; }
  uint64_t number = 0;  // among the launches that were queued on the stream
  atalla_launch_desc desc;
};

// Commands that have been executed, for use again. Given back by one thread, taken by others one at a time: the taker
// empties the whole stack at once, so that no entry can come back between a look at it and its removal.
template <class T>
class CommandStore {
 public:
  ~CommandStore() {
    discard(mine_);
    discard(static_cast<T*>(returned_.load(std::memory_order_relaxed)));
  }
  // By one thread at a time.
  T* take() {
    if (mine_ == nullptr) mine_ = static_cast<T*>(returned_.exchange(nullptr, std::memory_order_acquire));
    if (mine_ == nullptr) return new T;
    T* command = mine_;
    mine_ = static_cast<T*>(command->next_unused);
    return command;
  }
  void give_back(T* command) noexcept {
    Command* head = returned_.load(std::memory_order_relaxed);
    do {
      command->next_unused = head;
    } while (!returned_.compare_exchange_weak(head, command, std::memory_order_release, std::memory_order_relaxed));
  }

 private:
  static void discard(T* command) noexcept {
    while (command != nullptr) delete std::exchange(command, static_cast<T*>(command->next_unused));
  }
  T* mine_ = nullptr;
  std::atomic<Command*> returned_{nullptr};
};

}  // namespace atalla::runtime
