// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise_loops_integer.inc"

namespace atalla::sim::ATALLA_ISA {

const PointwiseLoop* const kPointwiseLoopsU8 = kLoops<uint8_t>;
const PointwiseLoop* const kPointwiseLoopsI8 = kLoops<int8_t>;

}  // namespace atalla::sim::ATALLA_ISA
