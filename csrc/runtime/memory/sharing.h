// SPDX-License-Identifier: BSD-3-Clause
//
// DRAM that several processes use. What travels between them is a descriptor of the DRAM's file that holds a lock on
// the bytes in question (an open-file-description lock): as long as any copy of it is open anywhere, in a message or in
// a process, the bytes are in use. The system closes the descriptors of a process that ends or is killed, so that no
// count can be left behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/c_api/export.h"

namespace atalla::runtime {

// Where bytes stand in DRAM: the file (an identity among all processes of the machine) and the offset in it.
struct DramRange {
  uint64_t file_device = 0;
  uint64_t file_inode = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct ExportedMemory {
  int fd = -1;  // the caller's to close
  DramRange range;
};

// A new reference to [ptr, ptr + bytes) of the device's DRAM, or of DRAM that was imported to it. The caller has waited
// for the work that writes there. Throws Error: ATALLA_ERR_FAULT_ADDRESS for other memory, ATALLA_ERR_UNSUPPORTED if
// the device has no file, ATALLA_ERR_SYSTEM if the system refuses.
ATALLA_RUNTIME_API ExportedMemory export_memory(int ordinal, const void* ptr, size_t bytes);

// Whether a reference to a part of the range is open anywhere. The address is one of the device's own DRAM.
ATALLA_RUNTIME_API bool is_exported(int ordinal, const void* ptr, size_t bytes);

// Takes over a reference (fd, which import_memory owns from the call on, also when it throws): an address on the
// device, which counts as imported until release_memory. DRAM of another process is mapped when its first range comes
// and unmapped when its last one goes; a range of this process's own DRAM is where it is. Throws Error as export_memory
// does.
ATALLA_RUNTIME_API void* import_memory(int ordinal, int fd, uint64_t offset, size_t bytes);
// Waits for the device's work, then gives the reference back.
ATALLA_RUNTIME_API void release_memory(int ordinal, void* ptr, int fd) noexcept;

// Ordinal of the device to which the address was imported.
std::optional<int> importer_of(const void* ptr) noexcept;

}  // namespace atalla::runtime
