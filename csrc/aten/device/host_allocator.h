// SPDX-License-Identifier: BSD-3-Clause
//
// Pinned memory: PyTorch's caching host allocator over the driver's host memory. Its instance is
// at::getHostAllocator(c10::kPrivateUse1).
#pragma once

#include <ATen/core/Tensor.h>

namespace at {
struct HostAllocator;
}

namespace atalla::aten {

at::HostAllocator* host_allocator();
void register_host_allocator();

// Whether `host`'s memory is pinned; if so, it is not handed out again before the work that is queued on `stream` when
// the memory is freed is done. Before a copy that does not wait.
bool keep_for_stream(const at::Tensor& host, c10::Stream stream);

}  // namespace atalla::aten
