// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "runtime/graph/recording.h"
#include "runtime/tools/options.h"

namespace atalla::tools {

// Does what the command line asks for. Throws std::exception with one clear text.
void run(const Options& options);

// Prints how long opening and loading took (load_ms), the median time of a run of the method on tensors of the device
// (run_us), and the peak memory of the process (peak_bytes). Inputs are zeros.
void bench(const Options& options);

// Writes launches and copies as a trace in the Chrome/Perfetto format on the device's simulated clock. Throws
// std::exception when the file cannot be written.
void write_trace(const runtime::RecordedWork& work, const std::string& path);

}  // namespace atalla::tools
