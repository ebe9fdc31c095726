// SPDX-License-Identifier: BSD-3-Clause
//
// Storages that several processes use (runtime/memory/sharing.h has the mechanism,
// torch_atalla/integration/sharing.py the messages).
#pragma once

#include <c10/core/Storage.h>

#include "runtime/memory/sharing.h"

namespace atalla::aten {

// A reference for another process, after the device's work is done; faults stay for who synchronises. From then on the
// storage's memory goes back to the allocator only when no process has a reference any more.
runtime::ExportedMemory share_storage(const c10::Storage& storage);

// A storage over a reference that another process gave; takes over the descriptor. It cannot be resized.
c10::Storage receive_storage(int ordinal, int fd, uint64_t offset, size_t bytes);

// Frees the memory of storages that are gone here and have no reference elsewhere any more. Returns how many were
// freed.
size_t collect_shared();

}  // namespace atalla::aten
