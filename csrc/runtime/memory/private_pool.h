// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <thread>

#include "runtime/memory/pool.h"
#include "runtime/memory/pool_id.h"

namespace atalla::runtime {

// Memory that only the allocations routed to it use. Its segments go back to the device when nobody uses the pool any
// more; until then their addresses are kept, since a graph may replay work on them.
struct PrivatePool {
  PoolId id;
  PoolOptions options;
  int users = 0;
  int busy = 0;  // allocations that are waiting for memory
  size_t segments = 0;
  PoolSet pools;

  PrivatePool(PoolId id_, PoolOptions options_) : id(id_), options(options_), pools(this, options_.no_split) {}
};

// Sends allocations to a private pool.
struct Route {
  PrivatePool* pool;
  bool capture;            // frees with record_stream wait for its end: no event can be recorded on a capturing stream
  std::thread::id thread;  // that began it
  std::function<bool(const Stream&)> takes;  // by the allocation's stream; null: all allocations of the thread
};

}  // namespace atalla::runtime
