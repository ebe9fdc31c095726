// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise_loops_bool.inc"

namespace atalla::sim::ATALLA_ISA {

const PointwiseLoop* const kPointwiseLoopsBool = kLoops<bool>;

}  // namespace atalla::sim::ATALLA_ISA
