// SPDX-License-Identifier: BSD-3-Clause
#include "aten/distributed/reaper.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/stream/private_streams.h"

namespace atalla::aten {

namespace {

class Reaper {
 public:
  Reaper() {
    thread_ = std::thread([this] { serve(); });
    runtime::before_stop_of_workers([this] { stop(); });
  }

  void push(std::shared_ptr<const void> owner, AtEnd at_end) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) {
        if (at_end == AtEnd::kKeep) kept_.push_back(std::move(owner));
        return;  // otherwise dropped here: at the end of the process no thread waits for this one
      }
      owners_.push_back(std::move(owner));
    }
    pushed_.notify_one();
  }

 private:
  // Before the interpreter ends, which would end the thread where it waits for its lock.
  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    pushed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      pushed_.wait(lock, [this] { return stopping_ || !owners_.empty(); });
      if (owners_.empty()) return;
      std::shared_ptr<const void> owner = std::move(owners_.front());
      owners_.pop_front();
      lock.unlock();
      owner.reset();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable pushed_;
  std::deque<std::shared_ptr<const void>> owners_;
  std::vector<std::shared_ptr<const void>> kept_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

void drop_elsewhere(std::shared_ptr<const void> owner, AtEnd at_end) {
  static auto* const reaper = new Reaper;  // never destroyed: workers of the process' end still call
  reaper->push(std::move(owner), at_end);
}

}  // namespace atalla::aten
