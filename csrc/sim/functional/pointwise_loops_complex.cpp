// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise_loops_complex.inc"

namespace atalla::sim::ATALLA_ISA {

const PointwiseLoop* const kPointwiseLoopsC64 = kLoops<Complex<float>>;
const PointwiseLoop* const kPointwiseLoopsC128 = kLoops<Complex<double>>;

}  // namespace atalla::sim::ATALLA_ISA
