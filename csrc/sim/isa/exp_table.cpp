// SPDX-License-Identifier: BSD-3-Clause
#include "sim/isa/exp_table.h"

#include <bit>
#include <cmath>

namespace atalla::sim::isa {

const uint16_t* exp_table() {
  static const uint16_t* const table = [] {
    auto* entries = new uint16_t[65536];
    for (uint32_t i = 0; i < 65536; ++i) {
      const float x = std::bit_cast<float>(i << 16);
      // Double precision, so that the FP32 value is the nearest one.
      const auto y = std::bit_cast<uint32_t>(static_cast<float>(std::exp(static_cast<double>(x))));
      const bool is_nan = std::isnan(x);
      entries[i] = is_nan ? 0x7FC0 : static_cast<uint16_t>((y + 0x7FFF + (y >> 16 & 1)) >> 16);
    }
    return entries;
  }();
  return table;
}

}  // namespace atalla::sim::isa
