// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "runtime/tools/options.h"

namespace atalla::tools {

// Prints how long opening and loading took (load_ms), the median time of a run of the method on tensors of the device
// (run_us), and the peak memory of the process (peak_bytes). Inputs are zeros.
void bench(const Options& options);

}  // namespace atalla::tools
