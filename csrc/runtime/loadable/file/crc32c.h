// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/c_api/export.h"

namespace atalla::runtime::loadable {

// CRC32C (Castagnoli: reflected polynomial 0x82F63B78, initial value and final XOR 0xFFFFFFFF; RFC 3720, appendix B.4)
// of what `crc` is the CRC of, followed by `data`. Start with 0. Uses the SSE4.2 instruction where the processor has
// it.
ATALLA_RUNTIME_API uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) noexcept;

// The same without the instruction; the two are tested against each other.
ATALLA_RUNTIME_API uint32_t crc32c_software(uint32_t crc, const void* data, size_t bytes) noexcept;

}  // namespace atalla::runtime::loadable
