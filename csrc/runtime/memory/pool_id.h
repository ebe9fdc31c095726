// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/c_api/export.h"

namespace atalla::runtime {

// Names a private pool of the caching allocator, as PyTorch's MempoolId_t does: {n, 0} is a pool that a graph made for
// its own capture, {0, n} one that a user made. {0, 0}: no private pool.
using PoolId = std::pair<uint64_t, uint64_t>;

// An id that nobody has, for all devices.
ATALLA_RUNTIME_API PoolId new_graph_pool_id() noexcept;
ATALLA_RUNTIME_API PoolId new_user_pool_id() noexcept;

struct PoolOptions {
  bool use_on_oom = false;  // its free blocks serve any allocation (of their stream) that would be out of memory
  bool no_split = false;    // each allocation has a segment of its own
};

}  // namespace atalla::runtime
