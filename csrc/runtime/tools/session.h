// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "runtime/tools/options.h"

namespace atalla::tools {

// Does what the command line asks for. Throws std::exception with one clear text.
void run(const Options& options);

}  // namespace atalla::tools
