// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise_loops_integer.inc"

namespace atalla::sim::ATALLA_ISA {

const PointwiseLoop* const kPointwiseLoopsI64 = kLoops<int64_t>;

}  // namespace atalla::sim::ATALLA_ISA
