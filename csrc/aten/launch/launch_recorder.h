// SPDX-License-Identifier: BSD-3-Clause
//
// The recorder collects the launches of an op instead of running them. The compiler lowers ops with it.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/stream/stream.h"

namespace atalla::aten {

// While one lives, the calling thread's device memory is placeholders: addresses that are handed out once, with nothing
// behind them. Launches are kept; whatever needs their results is refused. Random
// numbers are those of seed 0, from position 0 on.
class LaunchRecorder final : public runtime::StreamRecorder {
 public:
  struct Block {
    atalla_addr address;
    size_t bytes;
    std::optional<std::string> content;  // of memory that the host filled
  };

  LaunchRecorder();
  ~LaunchRecorder() override;
  LaunchRecorder(const LaunchRecorder&) = delete;
  LaunchRecorder& operator=(const LaunchRecorder&) = delete;

  static LaunchRecorder* current() noexcept;  // of the calling thread; null: it records nothing
  void* allocate(size_t bytes);
  uint64_t draw(uint64_t positions) noexcept { return std::exchange(drawn_, drawn_ + positions); }
  uint64_t drawn() const noexcept { return drawn_; }
  const std::vector<Block>& blocks() const noexcept { return blocks_; }
  const std::vector<atalla_launch_desc>& launches() const noexcept { return launches_; }

  void launch(runtime::Stream&, const atalla_launch_desc& desc) override { launches_.push_back(desc); }
  void copy(runtime::Stream&, const atalla_copy_params& params, bool blocking) override;
  void record(runtime::Stream&, runtime::EventRecord*) override { refuse("an event"); }
  void wait(runtime::Stream&, runtime::EventRecord*) override { refuse("an event"); }
  void host_call(runtime::Stream&, std::function<void()>) override { refuse("a call of the host"); }
  void meet(runtime::Stream&, runtime::MeetingCall) override { refuse("a call of the host"); }
  void synchronize(runtime::Stream&) override;

  [[noreturn]] static void refuse(const char* what);

 private:
  friend bool records() noexcept;
  static inline std::atomic<int> alive_{0};

  runtime::Stream& before_;
  runtime::Stream& stream_;
  std::vector<Block> blocks_;
  std::vector<atalla_launch_desc> launches_;
  uint64_t drawn_ = 0;  // positions of the random sequence
};

// True while the calling thread's launches are recorded. Recorded operands have the tensors' own dimensions, because
// the dimensions that an iterator joins depend on sizes that a program may leave open.
inline bool records() noexcept {
  return LaunchRecorder::alive_.load(std::memory_order_relaxed) != 0 && LaunchRecorder::current() != nullptr;
}

// True if an op may read elements to check them. A recorded program cannot; the kernels of such ops refuse only what
// would be an access out of bounds.
inline bool may_check_elements() noexcept { return !records(); }

}  // namespace atalla::aten
