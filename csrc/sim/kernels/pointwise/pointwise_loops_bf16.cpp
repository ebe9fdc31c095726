// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise_loops_floating.inc"

namespace atalla::sim::ATALLA_ISA {

const PointwiseLoop* const kPointwiseLoopsBF16 = kLoops<float, BFloat16>;

}  // namespace atalla::sim::ATALLA_ISA
