// SPDX-License-Identifier: BSD-3-Clause
//
// torch.atalla.set_sync_debug_mode: telling users where the host waits for the device.
#pragma once

#include <c10/util/Exception.h>

#include <atomic>

namespace atalla::aten {

enum class SyncDebugMode : int { kDefault = 0, kWarn = 1, kError = 2 };

inline std::atomic<SyncDebugMode> sync_debug_cell{SyncDebugMode::kDefault};
inline SyncDebugMode sync_debug_mode() { return sync_debug_cell.load(std::memory_order_relaxed); }
inline void set_sync_debug_mode(SyncDebugMode mode) { sync_debug_cell.store(mode, std::memory_order_relaxed); }

[[gnu::cold]] inline void report_synchronization() {
  TORCH_CHECK(sync_debug_mode() != SyncDebugMode::kError, "called a synchronizing atalla operation");
  TORCH_WARN("called a synchronizing atalla operation");
}

// To be called before an op waits for a stream without being asked to. Warns or throws where the mode says so.
inline void note_synchronization() {
  if (sync_debug_mode() != SyncDebugMode::kDefault) [[unlikely]]
    report_synchronization();
}

}  // namespace atalla::aten
