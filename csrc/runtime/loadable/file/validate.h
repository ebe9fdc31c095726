// SPDX-License-Identifier: BSD-3-Clause
//
// The one validator of loadables: used when a file is saved and when it is loaded. docs/reference/loadable-format.md
// states the rules. No byte pattern makes it crash, and its time is linear in the file's length (up to a logarithm).
#pragma once

#include <cstddef>
#include <span>

#include "runtime/c_api/export.h"
#include "runtime/loadable/file/problems.h"
#include "runtime/loadable/file/view.h"

namespace atalla::runtime::loadable {

// When the checksums of WEIGHTS and CONSTANTS are compared: with all others, or later by who reads them for another
// reason, once.
enum class BulkCheck { kNow, kLater };

// Header, section table, checksums, padding; then the sections' places go into `view`. Without a problem, `view` may be
// read within its tables.
ATALLA_RUNTIME_API void parse_container(std::span<const std::byte> file, View& view, Problems& problems,
                                        BulkCheck bulk = BulkCheck::kNow);

// What is said of a section whose bytes have the CRC32C `found`; nothing if it is the right one.
void check_crc(uint32_t index, const Section& section, uint32_t found, Problems& problems);

// Every reference, range, dtype and enumerator of every record, and that every tensor lies in its storage.
void validate_records(const View& view, Problems& problems);

// The part of validate_records that sizes, strides, offsets and numbers of bytes decide: for a view whose other fields
// have passed it.
void validate_tensors(const View& view, Problems& problems);

// Symbols, size expressions, what follows them, guards; and that the numbers in the file are those expressions' values.
// Needs records without problems.
void validate_dynamic(const View& view, Problems& problems);

// The memory plan, re-derived from the instructions: places of storages, live ranges, no byte shared by two storages
// that live at the same time, nothing read before it is written. Needs records without problems.
void validate_memory(const View& view, Problems& problems);

// Atalla code: what its records name, and that each relocation stays in its region. Needs records without problems.
void validate_code(const View& view, Problems& problems);

// All of the above; a stage whose basis is broken is left out.
ATALLA_RUNTIME_API void validate(std::span<const std::byte> file, View& view, Problems& problems,
                                 BulkCheck bulk = BulkCheck::kNow);

}  // namespace atalla::runtime::loadable
