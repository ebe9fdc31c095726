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

// `stream` uses the memory too. After its release, the allocator hands it out only when the work that is queued there
// by then is done. Has no effect on memory of other owners (another process, a host program).
void record_stream(const c10::DataPtr& ptr, c10::Stream stream);

// Reads PYTORCH_ALLOC_CONF and TORCH_ATALLA_ALLOC_CONF (which wins), and follows later changes by
// torch._C._accelerator_setAllocatorSettings. Raises upstream's errors for settings of the second that are malformed or
// unknown.
void install_allocator_settings();

}  // namespace atalla::aten
