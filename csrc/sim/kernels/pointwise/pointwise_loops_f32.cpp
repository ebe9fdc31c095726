// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise_loops_floating.inc"

namespace atalla::sim::ATALLA_ISA {

const PointwiseLoop* const kPointwiseLoopsF32 = kLoops<float>;

}  // namespace atalla::sim::ATALLA_ISA
