// SPDX-License-Identifier: BSD-3-Clause
//
// Winograd's minimal filtering F(M, 3) in one dimension: M outputs of three taps by M + 2 products instead of 3 * M.
// Outputs are A^T [(G g) * (B^T d)] of taps g and M + 2 inputs d: polynomials of degree M + 1 are multiplied by their
// values at M + 1 points and by their leading coefficients. Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2015, has the construction.
#pragma once

#include "sim/kernels/base/vector.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <int M>
struct MinimalFilter;

// The points 0, 1 and -1.
template <>
struct MinimalFilter<2> {
  using V = Vec<float>;

  // G g.
  static void taps(V g0, V g1, V g2, V* to) {
    const V half = broadcast<float>(0.5f), outer = g0 + g2;
    to[0] = g0, to[1] = (outer + g1) * half, to[2] = (outer - g1) * half, to[3] = g2;
  }
  // B^T d.
  static void inputs(const V* d, V* to) {
    to[0] = d[0] - d[2], to[1] = d[1] + d[2], to[2] = d[2] - d[1], to[3] = d[1] - d[3];
  }
  // A^T m.
  static void outputs(const V* m, V* to) { to[0] = m[0] + m[1] + m[2], to[1] = m[1] - m[2] - m[3]; }
};

// The points 0, 3/4, -3/4, 3/2 and -3/2. They and their powers are exact, and the powers are nearer to 1 than those of
// the usual points 1 and 2, so the terms of a sum differ less in size: the errors are half as large.
template <>
struct MinimalFilter<4> {
  using V = Vec<float>;
  static constexpr float p = 0.75f, q = 1.5f, p2 = p * p, q2 = q * q;

  static void taps(V g0, V g1, V g2, V* to) {
    constexpr float near = 1 / (2 * p2 * (p2 - q2)), far = 1 / (2 * q2 * (q2 - p2));
    to[0] = g0 * all(1 / (p2 * q2)), to[5] = g2;
    V even = add(g2 * all(near * p2), near, g0);
    to[1] = add(even, near * p, g1), to[2] = add(even, -near * p, g1);
    even = add(g2 * all(far * q2), far, g0);
    to[3] = add(even, far * q, g1), to[4] = add(even, -far * q, g1);
  }
  static void inputs(const V* d, V* to) {
    to[0] = add(add(d[4], -(p2 + q2), d[2]), p2 * q2, d[0]);
    V even = add(d[4], -q2, d[2]), odd = add(d[3], -q2, d[1]);
    to[1] = add(even, p, odd), to[2] = add(even, -p, odd);
    even = add(d[4], -p2, d[2]), odd = add(d[3], -p2, d[1]);
    to[3] = add(even, q, odd), to[4] = add(even, -q, odd);
    to[5] = add(add(d[5], -(p2 + q2), d[3]), p2 * q2, d[1]);
  }
  static void outputs(const V* m, V* to) {
    const V near = m[1] + m[2], far = m[3] + m[4], near_odd = m[1] - m[2], far_odd = m[3] - m[4];
    to[0] = m[0] + near + far, to[1] = add(near_odd * all(p), q, far_odd);
    to[2] = add(near * all(p2), q2, far), to[3] = add(add(m[5], p2 * p, near_odd), q2 * q, far_odd);
  }

 private:
  static V all(float x) { return broadcast<float>(x); }
  static V add(V sum, float factor, V x) { return multiply_add<float>(all(factor), x, sum); }
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
