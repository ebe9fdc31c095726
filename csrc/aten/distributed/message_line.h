// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace atalla::aten {

// Messages of one direction, peer and tag, which pair with the peer's by their order: each is on a stream of its own,
// but they are handed to the host backend in the order of their submission. Thread-safe.
class MessageLine {
 public:
  uint64_t enter() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return entered_++;
  }
  // Runs `post` when all that entered before have posted or left.
  template <class Post>
  auto in_turn(uint64_t ticket, Post&& post) {
    std::unique_lock<std::mutex> lock(mutex_);
    moved_.wait(lock, [&] { return next_ == ticket; });
    struct Advance {
      MessageLine& line;
      ~Advance() { line.advance(); }
    } const advance{*this};
    return post();
  }
  // Of one that will never post.
  void leave(uint64_t ticket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ticket < next_) return;
    gone_.insert(ticket);
    if (ticket == next_) {
      --next_;
      advance();
    }
  }

 private:
  void advance() {
    ++next_;
    while (gone_.erase(next_) != 0) ++next_;
    moved_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable moved_;
  uint64_t entered_ = 0;
  uint64_t next_ = 0;
  std::set<uint64_t> gone_;
};

struct MessageKey {
  bool sent;
  int peer;  // -1: any
  int tag;
  auto operator<=>(const MessageKey&) const = default;
};

}  // namespace atalla::aten
