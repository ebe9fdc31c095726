// SPDX-License-Identifier: BSD-3-Clause
#include "aten/distributed/reaper.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/stream/private_streams.h"

namespace atalla::aten {

namespace {

class Reaper {
 public:
  Reaper() {
    thread_ = std::thread([this] { serve(); });
    runtime::before_stop_of_workers([this] { stop(); });
  }

  void push(std::shared_ptr<const void> owner) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;  // dropped here: at the end of the process nobody waits
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
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

void drop_elsewhere(std::shared_ptr<const void> owner) {
  static auto* const reaper = new Reaper;  // never destroyed: workers of the process' end still call
  reaper->push(std::move(owner));
}

}  // namespace atalla::aten
