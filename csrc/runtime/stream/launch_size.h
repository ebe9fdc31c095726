// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "runtime/c_api/export.h"
#include "sim/abi/atalla.h"

namespace atalla::runtime {

// Which launches are short, so that an idle stream runs them on the calling thread (docs/concepts/driver.md). Handing
// one to the stream's worker costs the caller about 1 us, and 5 to 50 us until a sleeping worker runs it; what takes no
// longer than kShortNanoseconds by itself is not worth that.
inline constexpr uint64_t kShortNanoseconds = 50'000;
// Operands of so few bytes make every kernel short whose work is in proportion to them, so nothing else is asked. (The
// few that are not, such as the decomposition of a 64 x 64 matrix, run for about a millisecond.)
inline constexpr uint64_t kShortBytes = 16 * 1024;
// And so many make it long: no engine moves them in less, at 20 bytes a nanosecond.
inline constexpr uint64_t kLongBytes = 1024 * 1024;

namespace launch_size {

// Bytes of an element by dtype code.
inline constexpr uint8_t kElementBytes[16] = {1, 1, 2, 4, 8, 2, 4, 8, 0, 8, 16, 1, 0, 0, 0, 2};

}  // namespace launch_size

// Bytes of all operands in memory, each counted once. A malformed descriptor gives any number.
inline uint64_t operand_bytes(const atalla_launch_desc& desc) noexcept {
  uint64_t bytes = 0;
  const int n = desc.n_operands <= ATALLA_MAX_OPERANDS ? desc.n_operands : 0;
  for (int i = 0; i < n; ++i) {
    const atalla_operand& operand = desc.operands[i];
    if (operand.addr == 0) continue;
    uint64_t elements = launch_size::kElementBytes[operand.dtype & 15];
    const int ndim = operand.ndim <= ATALLA_MAX_DIMS ? operand.ndim : 0;
    for (int d = 0; d < ndim; ++d) elements *= static_cast<uint64_t>(operand.sizes[d]);
    bytes += elements;
  }
  return bytes;
}

// For operands of more than kShortBytes: asks the chip what the launch is made of. A launch that the chip refuses to
// estimate is short, so that the caller learns the reason from the launch.
ATALLA_RUNTIME_API bool is_short_launch(atalla_device device, const atalla_launch_desc& desc,
                                        uint64_t operand_bytes) noexcept;

}  // namespace atalla::runtime
