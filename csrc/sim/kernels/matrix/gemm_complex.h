// SPDX-License-Identifier: BSD-3-Clause
//
// Complex products: real and imaginary parts are separated, four real products are run on them, and the results are
// joined with alpha, beta and c. (Three products would do, but lose digits where the parts differ in size.)
#pragma once

#include "sim/kernels/base/complex_math.h"
#include "sim/kernels/matrix/gemm_parallel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kJoinGrain = 16384;  // elements that a thread joins at least

// A strided matrix of complex numbers of either width.
struct ComplexMatrix {
  char* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;  // in elements
  bool is_double = false;

  template <class T>
  Complex<T> load(int64_t row, int64_t col) const {
    const int64_t i = row * row_stride + col * col_stride;
    if (is_double) return convert<Complex<T>>(reinterpret_cast<const Complex<double>*>(data)[i]);
    return convert<Complex<T>>(reinterpret_cast<const Complex<float>*>(data)[i]);
  }
  template <class T>
  void store(int64_t row, int64_t col, Complex<T> x) const {
    const int64_t i = row * row_stride + col * col_stride;
    if (is_double) reinterpret_cast<Complex<double>*>(data)[i] = convert<Complex<double>>(x);
    else reinterpret_cast<Complex<float>*>(data)[i] = convert<Complex<float>>(x);
  }
  ComplexMatrix batch(int64_t elements) const {
    return {data + elements * (is_double ? 16 : 8), row_stride, col_stride, is_double};
  }
};

template <class T>
struct Parts {
  MatrixView re, im;
};

template <class T, class S>
void separate(const S* from, int64_t stride, int64_t n, T sign, T* re, T* im) {
  for (int64_t i = 0; i < n; ++i) {
    re[i] = static_cast<T>(from[i * stride].re);
    im[i] = static_cast<T>(from[i * stride].im) * sign;
  }
}

// The parts of a rows x cols matrix, dense in `buffer` (2 * rows * cols values), in the order in which it lies.
template <class T>
Parts<T> separate(const ComplexMatrix& m, int64_t rows, int64_t cols, bool conjugate, T* buffer) {
  const bool by_columns = m.row_stride < m.col_stride && rows > 1;
  const int64_t outer = by_columns ? cols : rows, inner = by_columns ? rows : cols;
  const int64_t outer_stride = by_columns ? m.col_stride : m.row_stride;
  const int64_t stride = by_columns ? m.row_stride : m.col_stride;
  T *re = buffer, *im = buffer + rows * cols;
  const T sign = conjugate ? T(-1) : T(1);
  for (int64_t o = 0; o < outer; ++o, re += inner, im += inner) {
    if (m.is_double) {
      separate(reinterpret_cast<const Complex<double>*>(m.data) + o * outer_stride, stride, inner, sign, re, im);
    } else {
      separate(reinterpret_cast<const Complex<float>*>(m.data) + o * outer_stride, stride, inner, sign, re, im);
    }
  }
  const int64_t item = static_cast<int64_t>(sizeof(T));
  MatrixView view{reinterpret_cast<const char*>(buffer), kNativeOf<T>, by_columns ? 1 : cols, by_columns ? rows : 1,
                  item};
  MatrixView second = view;
  second.data += rows * cols * item;
  return {view, second};
}

template <class T>
struct ComplexProduct {
  int64_t m = 0, n = 0, k = 0;
  ComplexMatrix out, a, b, c;  // c.data is null when absent or when beta is 0
  bool conjugate_a = false, conjugate_b = false;
  Complex<T> alpha = {1, 0}, beta = {0, 0};
};

// out[row, :] from the parts of the product.
template <class T>
void join_row(const ComplexProduct<T>& g, int64_t row, const T* re, const T* im) {
  const bool scaled = g.alpha != Complex<T>{1, 0}, weighted = g.beta != Complex<T>{1, 0};
  for (int64_t j = 0; j < g.n; ++j) {
    Complex<T> x = {re[j], im[j]};
    if (scaled) x = g.alpha * x;
    if (g.c.data != nullptr) {
      const Complex<T> c = g.c.template load<T>(row, j);
      x = x + (weighted ? g.beta * c : c);
    }
    g.out.store(row, j, x);
  }
}

// False when there is no memory.
template <class T>
bool multiply_complex(const ComplexProduct<T>& g) {
  T* const left = scratch<T>(ScratchSlot::Keys, 2 * g.m * g.k);
  T* const right = scratch<T>(ScratchSlot::Values, 2 * g.k * g.n);
  T* const result = scratch<T>(ScratchSlot::Scores, 2 * g.m * g.n);
  if (left == nullptr || right == nullptr || result == nullptr) return false;
  const Parts<T> a = separate(g.a, g.m, g.k, g.conjugate_a, left);
  const Parts<T> b = separate(g.b, g.k, g.n, g.conjugate_b, right);

  MatrixProduct<T> p;
  p.m = g.m, p.n = g.n, p.k = g.k;
  p.epilogue.out = {reinterpret_cast<const char*>(result), kNativeOf<T>, g.n, 1, static_cast<int64_t>(sizeof(T))};
  p.a = a.re, p.b = b.re;
  if (!multiply(p)) return false;
  p.a = a.im, p.b = b.im;
  p.epilogue.alpha = T(-1), p.epilogue.beta = T(1), p.epilogue.c = p.epilogue.out;
  if (!multiply(p)) return false;
  p.epilogue.out.data += g.m * g.n * static_cast<int64_t>(sizeof(T));
  p.epilogue.alpha = T(1), p.epilogue.beta = T(0), p.epilogue.c = MatrixView{};
  p.a = a.re, p.b = b.im;
  if (!multiply(p)) return false;
  p.a = a.im, p.b = b.re;
  p.epilogue.beta = T(1), p.epilogue.c = p.epilogue.out;
  if (!multiply(p)) return false;

  auto join = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) join_row(g, i, result + i * g.n, result + (g.m + i) * g.n);
  };
  const int64_t grain = max_of(1, kJoinGrain / g.n);
  if (g.m <= grain) join(0, g.m);
  else parallel_for(g.m, grain, join);
  return true;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
