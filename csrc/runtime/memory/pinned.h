// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "runtime/c_api/export.h"

namespace atalla::runtime {

// Host memory that queued copies may read and write while the host goes on: the owner keeps it until they are done.
// It starts at a page. It is not locked in memory: who copies is a thread of this process (docs/concepts/memory.md).
// Throws Error (ATALLA_ERR_SYSTEM) if the system has no room.
ATALLA_RUNTIME_API void* pinned_allocate(size_t bytes);
ATALLA_RUNTIME_API void pinned_free(void* ptr) noexcept;
// Whether the address lies in such memory, also in its middle.
ATALLA_RUNTIME_API bool is_pinned(const void* ptr) noexcept;

}  // namespace atalla::runtime
