// SPDX-License-Identifier: BSD-3-Clause
//
// How ranks tell each other when they arrive at a call, in simulated time.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "aten/distributed/host_waits.h"

namespace atalla::aten {

// The sender of a message tells its time in a message of its own, under the tag with this bit; callers' tags are below.
inline constexpr int kTimeTag = 1 << 30;

// One rank's part in the exchange of times of one call. Ranks wait for those whose data they need: all of each other in
// most collectives, for the root in a broadcast or scatter, the root for all in a reduce or gather, and the receiver of
// a message for its sender.
class Arrival {
 public:
  // `peer`: the root; or the other rank of a message, -1 for a receive from any.
  Arrival(c10d::OpType type, int rank, int64_t peer, int tag, int64_t time);

  // Adds the works of the exchange. A receive from any source comes later: receive_from.
  void post(c10d::Backend& host, HostWorks& works);
  HostWorks receive_from(c10d::Backend& host, int source);
  // When all works are complete: the latest time of those for whom this rank waits, and its own.
  int64_t latest() const;

 private:
  const c10d::OpType type_;
  const int rank_;
  const int64_t peer_;
  const int tag_;
  const int64_t own_;
  at::Tensor time_;
};

}  // namespace atalla::aten
