// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "runtime/graph/recording.h"

namespace atalla::tools {

// Writes launches and copies as a trace in the Chrome/Perfetto format on the device's simulated clock. Throws
// std::exception when the file cannot be written.
void write_trace(const runtime::RecordedWork& work, const std::string& path);

}  // namespace atalla::tools
