// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/Allocator.h>

namespace atalla::aten {

// Hands out DRAM of the current device, on its current stream, through the driver's caching allocator.
c10::Allocator* device_allocator();

}  // namespace atalla::aten
