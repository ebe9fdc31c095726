// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise_loops_integer.inc"

namespace atalla::sim::ATALLA_ISA {

const PointwiseLoop* const kPointwiseLoopsI16 = kLoops<int16_t>;
const PointwiseLoop* const kPointwiseLoopsI32 = kLoops<int32_t>;

}  // namespace atalla::sim::ATALLA_ISA
