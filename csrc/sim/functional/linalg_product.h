// SPDX-License-Identifier: BSD-3-Clause
//
// Products and triangular solves on work matrices: what the blocked factorisations spend their time in. The order of
// every sum is fixed by the shape, whatever the number of threads.
#pragma once

#include "linalg_matrix.h"

namespace atalla::sim::ATALLA_ISA::linalg {
namespace {

// c += sign * a * b for a strip of columns of c. Four columns of a at a time, so that c is read and written once for
// four multiply-adds.
template <class S>
[[gnu::noinline]] void add_product_columns(const Mat<S>& c, const Mat<S>& a, const Mat<S>& b, double sign,
                                           int64_t begin, int64_t end) {
  constexpr int64_t kRows = 512;  // of c and a: four columns of a stay in the first-level cache
  for (int64_t i0 = 0; i0 < c.rows; i0 += kRows) {
    const int64_t n = c.rows - i0 < kRows ? c.rows - i0 : kRows;
    int64_t k = 0;
    for (; k + 4 <= a.cols; k += 4) {
      const S* __restrict a0 = a.col(k) + i0;
      const S* __restrict a1 = a.col(k + 1) + i0;
      const S* __restrict a2 = a.col(k + 2) + i0;
      const S* __restrict a3 = a.col(k + 3) + i0;
      for (int64_t j = begin; j < end; ++j) {
        const S b0 = b(k, j) * sign, b1 = b(k + 1, j) * sign, b2 = b(k + 2, j) * sign, b3 = b(k + 3, j) * sign;
        S* __restrict out = c.col(j) + i0;
        for (int64_t i = 0; i < n; ++i) out[i] = out[i] + (a0[i] * b0 + a1[i] * b1 + (a2[i] * b2 + a3[i] * b3));
      }
    }
    for (; k < a.cols; ++k) {
      const S* __restrict a0 = a.col(k) + i0;
      for (int64_t j = begin; j < end; ++j) {
        const S b0 = b(k, j) * sign;
        S* __restrict out = c.col(j) + i0;
        for (int64_t i = 0; i < n; ++i) out[i] = out[i] + a0[i] * b0;
      }
    }
  }
}

template <class S>
void add_product(const Mat<S>& c, const Mat<S>& a, const Mat<S>& b, double sign) {
  if (c.rows == 0 || c.cols == 0 || a.cols == 0) return;
  constexpr int64_t kWorkPerTask = 262144;
  const int64_t work = c.rows * a.cols;
  parallel_for(c.cols, work >= kWorkPerTask ? 8 : (kWorkPerTask / work + 7) / 8 * 8,
               [&](int64_t begin, int64_t end) { add_product_columns(c, a, b, sign, begin, end); });
}

// x := t^-1 x for a triangular t, in blocks.
template <class S>
void solve_triangle(const Mat<S>& t, const Mat<S>& x, bool upper, bool unit) {
  constexpr int64_t kBlock = 32;
  const int64_t n = t.rows, blocks = (n + kBlock - 1) / kBlock;
  for (int64_t k = 0; k < blocks; ++k) {
    const int64_t first = (upper ? blocks - 1 - k : k) * kBlock, size = n - first < kBlock ? n - first : kBlock;
    const auto columns = [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        S* v = x.col(j) + first;
        for (int64_t s = 0; s < size; ++s) {
          const int64_t i = upper ? size - 1 - s : s;
          const S* c = t.col(first + i) + first;
          if (!unit) v[i] = v[i] / c[i];
          const S y = v[i];
          const int64_t from = upper ? 0 : i + 1, to = upper ? i : size;
          for (int64_t r = from; r < to; ++r) v[r] = v[r] - c[r] * y;
        }
      }
    };
    parallel_for(x.cols, 16384 / (size * size + 1) + 1, columns);
    const int64_t below = upper ? 0 : first + size, rest = upper ? first : n - first - size;
    add_product(x.block(below, 0, rest, x.cols), t.block(below, first, rest, size), x.block(first, 0, size, x.cols),
                -1.0);
  }
}

// Sum of conj(a[i]) * b[i].
template <class S>
S dot(const S* a, const S* b, int64_t n) {
  S sum[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int u = 0; u < 4; ++u) sum[u] += conj(a[i + u]) * b[i + u];
  }
  for (; i < n; ++i) sum[0] += conj(a[i]) * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Euclidean norm, scaled so that squares neither overflow nor vanish.
template <class S>
double norm(const S* a, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double m = modulus1(a[i]);
    if (m > largest || m != m) largest = m;
  }
  if (largest == 0 || !(largest < 0x1p1023)) return largest;
  double sum = 0;
  if (largest > 0x1p-400 && largest < 0x1p400) {
    for (int64_t i = 0; i < n; ++i) sum += squared(a[i]);
    return std::sqrt(sum);
  }
  for (int64_t i = 0; i < n; ++i) sum += squared(a[i] / largest);
  return largest * std::sqrt(sum);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA::linalg
