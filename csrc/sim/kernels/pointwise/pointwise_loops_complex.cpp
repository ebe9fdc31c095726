// SPDX-License-Identifier: BSD-3-Clause
//
// Scalar code: GCC's vectoriser fuses the multiplication and the alternating addition of a complex product
// (vfmaddsub) although contraction is off. Then z * conj(z) is not real, and the elements of a ragged end, which stay
// scalar, would differ from the others.
#pragma GCC optimize("no-tree-vectorize")
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"  // T(1) has no imaginary part

#include "pointwise_loops_complex.inc"

namespace atalla::sim::ATALLA_ISA {

const PointwiseLoop* const kPointwiseLoopsC64 = kLoops<Complex<float>>;
const PointwiseLoop* const kPointwiseLoopsC128 = kLoops<Complex<double>>;

}  // namespace atalla::sim::ATALLA_ISA
