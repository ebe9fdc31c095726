// SPDX-License-Identifier: BSD-3-Clause
#include "aten/device/sync_debug.h"

#include <c10/util/Exception.h>

namespace atalla::aten {

std::atomic<SyncDebugMode> sync_debug_cell{SyncDebugMode::kDefault};

void report_synchronization() {
  TORCH_CHECK(sync_debug_mode() != SyncDebugMode::kError, "called a synchronizing atalla operation");
  TORCH_WARN("called a synchronizing atalla operation");
}

}  // namespace atalla::aten
