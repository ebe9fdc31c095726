// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace atalla::aten {

// Reads PYTORCH_ALLOC_CONF and TORCH_ATALLA_ALLOC_CONF (which wins), and follows later changes by
// torch._C._accelerator_setAllocatorSettings. Raises upstream's errors for settings of the second that are malformed or
// unknown.
void install_allocator_settings();

}  // namespace atalla::aten
