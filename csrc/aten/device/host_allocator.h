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

// Returns whether `host`'s memory is pinned. If it is, it is handed out again only when the work that is queued on
// `stream` at the time of its release is done. Called before a copy that does not wait.
bool keep_for_stream(const at::Tensor& host, c10::Stream stream);

}  // namespace atalla::aten
