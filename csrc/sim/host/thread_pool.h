// SPDX-License-Identifier: BSD-3-Clause
//
// The one pool of host threads behind parallel_for (declared in kernels/base/kernel.h). Host side of the simulation:
// neither results nor cycles depend on it.
#pragma once

#include <cstdint>

#include "sim/abi/atalla.h"

namespace atalla::sim {

inline constexpr uint32_t kMaxThreads = 256;

// The cores that this process may use, capped by ATALLA_NUM_THREADS. ATALLA_ERR_CONFIG if that is no number of threads.
atalla_status threads_setting(uint32_t* threads);

// Threads that share a parallel_for, the caller included. Default: threads_setting. ATALLA_ERR_ARGUMENT outside
// [1, kMaxThreads].
atalla_status set_pool_threads(uint32_t threads);
uint32_t pool_threads();

}  // namespace atalla::sim
