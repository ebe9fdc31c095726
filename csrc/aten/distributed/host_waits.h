// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace atalla::aten {

using HostWorks = std::vector<c10::intrusive_ptr<c10d::Work>>;

// Where threads wait for works of a host backend, and are sent away when it is aborted or when the process ends: a peer
// that never comes must not keep the process from ending. Thread-safe.
class HostWaits {
 public:
  HostWaits();

  // Returns when all works are complete, or throws their first error (c10::DistBackendError when sent away). Works
  // that go on after that keep `memory`. `messages`: sends and receives, which complete in their wait() only.
  void wait(const HostWorks& works, bool messages, std::shared_ptr<const void> memory);
  void abort();

  struct State;

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace atalla::aten
