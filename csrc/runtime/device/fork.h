// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "runtime/c_api/export.h"

namespace atalla::runtime {

inline constexpr const char* forked_error =
    "Cannot re-initialize atalla in forked subprocess. To use atalla with multiprocessing, you must use the 'spawn' "
    "start method";

// Whether this process is a forked child of one that had opened a device. Worker threads do not survive a fork, and the
// DRAM would be shared with the parent unawares.
ATALLA_RUNTIME_API bool in_forked_child() noexcept;
// Throws Error (ATALLA_ERR_SYSTEM, forked_error) in such a child.
void refuse_after_fork();
// From the first device on, fork is watched.
void watch_fork();

// What the child forgets, so that the way to every launch, copy and allocation leads through Device::get, which
// refuses: the open devices, and the streams that the forking thread had chosen.
void forget_devices() noexcept;
void forget_current_streams() noexcept;

}  // namespace atalla::runtime
