// SPDX-License-Identifier: BSD-3-Clause
//
// The calling thread's error text. set_error(), which writes it, is declared in kernels/base/kernel.h because kernels
// report through it too.
#pragma once

#include <cstddef>

#include "sim/kernels/base/kernel.h"

namespace atalla::sim {

// Longest text that is kept, terminator included; longer ones are cut.
inline constexpr size_t kErrorTextBytes = 1024;

// The text of the latest failing call of this thread; "" when no call has failed yet. Valid until the next failure.
const char* last_error();

// Puts a formatted prefix before the current text: what the caller knows and the callee did not.
[[gnu::format(printf, 1, 2)]] void prefix_error(const char* format, ...);

const char* status_name(atalla_status status);

// Faults (decade 4x) stop a stream; every other status belongs to the failing call alone.
constexpr bool is_fault(atalla_status status) { return status >= 40 && status < 50; }

}  // namespace atalla::sim
