// SPDX-License-Identifier: BSD-3-Clause
//
// e^x for every BF16 x: rounded to FP32, then to BF16. Index and value are BF16 bits.
#pragma once

#include <cstdint>

namespace atalla::sim::isa {

const uint16_t* exp_table();  // 65,536 entries, made at the first call; thread-safe

}  // namespace atalla::sim::isa
