// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include "runtime/device/runtime.h"

namespace atalla::aten {

// Hands out DRAM of the current device, on its current stream, through the driver's caching allocator.
c10::Allocator* device_allocator();

// The same for the caller's own use, on a stream of its choice. `free_device_memory` takes any address that came from
// here; nullptr is ignored.
void* allocate_device_memory(size_t bytes, runtime::Stream& stream);
void free_device_memory(void* ptr);

// `stream` uses the memory too, which after its release is not handed out before the work queued there by then is done.
// Memory that is not the allocator's (of another process, of a host program) is left alone.
void record_stream(const c10::DataPtr& ptr, c10::Stream stream);

inline runtime::PoolId pool_id(c10::MempoolId_t id) { return {id.first, id.second}; }

}  // namespace atalla::aten
