// SPDX-License-Identifier: BSD-3-Clause
//
// The passes of a Stockham (self-sorting) FFT, decimation in frequency, on separate real and imaginary parts.
//
// A pass of radix R takes sequences of length R * m, each element of which is `s` adjacent numbers (lanes and the part
// already transformed), from x to y:
//   y[s * (R p + k) + q] = w^(p k) * sum over j of x[s * (p + j m) + q] * exp(-2 pi i j k / R),   w = exp(-2 pi i / (R
//   m))
// so the inner loop over q is contiguous and has one twiddle factor. (C. Van Loan, Computational Frameworks for the
// Fast Fourier Transform, 1992, chapter 1.7 and 2.)
#pragma once

#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <class T>
struct Split {
  T* re;
  T* im;
};

// The discrete transform of R numbers in place.
template <class T, int R>
[[gnu::always_inline]] inline void small_dft(T (&re)[R], T (&im)[R]) {
  if constexpr (R == 2) {
    const T r = re[0] - re[1], i = im[0] - im[1];
    re[0] += re[1], im[0] += im[1];
    re[1] = r, im[1] = i;
  } else if constexpr (R == 3) {
    constexpr T kSin = T(0.866025403784438646763723170752936183L);
    const T tr = re[1] + re[2], ti = im[1] + im[2], dr = kSin * (re[1] - re[2]), di = kSin * (im[1] - im[2]);
    const T mr = re[0] - T(0.5) * tr, mi = im[0] - T(0.5) * ti;
    re[0] += tr, im[0] += ti;
    re[1] = mr + di, im[1] = mi - dr;
    re[2] = mr - di, im[2] = mi + dr;
  } else if constexpr (R == 4) {
    const T ar = re[0] + re[2], ai = im[0] + im[2], br = re[0] - re[2], bi = im[0] - im[2];
    const T cr = re[1] + re[3], ci = im[1] + im[3], dr = re[1] - re[3], di = im[1] - im[3];
    re[0] = ar + cr, im[0] = ai + ci;
    re[1] = br + di, im[1] = bi - dr;
    re[2] = ar - cr, im[2] = ai - ci;
    re[3] = br - di, im[3] = bi + dr;
  } else {
    static_assert(R == 5);
    constexpr T kCos1 = T(0.309016994374947424102293417182819059L), kSin1 = T(0.951056516295153572116439333379382143L);
    constexpr T kCos2 = T(-0.809016994374947424102293417182819059L), kSin2 = T(0.587785252292473129168705954639072769L);
    const T ar = re[1] + re[4], ai = im[1] + im[4], br = re[1] - re[4], bi = im[1] - im[4];
    const T cr = re[2] + re[3], ci = im[2] + im[3], dr = re[2] - re[3], di = im[2] - im[3];
    const T er = re[0] + kCos1 * ar + kCos2 * cr, ei = im[0] + kCos1 * ai + kCos2 * ci;
    const T fr = kSin1 * br + kSin2 * dr, fi = kSin1 * bi + kSin2 * di;
    const T gr = re[0] + kCos2 * ar + kCos1 * cr, gi = im[0] + kCos2 * ai + kCos1 * ci;
    const T hr = kSin2 * br - kSin1 * dr, hi = kSin2 * bi - kSin1 * di;
    re[0] += ar + cr, im[0] += ai + ci;
    re[1] = er + fi, im[1] = ei - fr;
    re[4] = er - fi, im[4] = ei + fr;
    re[2] = gr + hi, im[2] = gi - hr;
    re[3] = gr - hi, im[3] = gi + hr;
  }
}

// What a pass works on: sequences p in [p0, p1), lanes q in [q0, q1). `w` holds exp(-2 pi i k / n), `step` is n / (R
// m).
template <class T>
struct Pass {
  Split<const T> x;
  Split<T> y;
  Split<const T> w;
  int64_t n, m, s, step;
  int64_t p0, p1, q0, q1;
};

template <class T, int R>
[[gnu::noinline]] void run_pass(const Pass<T>& pass) {
  const int64_t s = pass.s, jump = pass.m * s, q0 = pass.q0, q1 = pass.q1;
  for (int64_t p = pass.p0; p < pass.p1; ++p) {
    const T* __restrict xr = pass.x.re + p * s;
    const T* __restrict xi = pass.x.im + p * s;
    T* __restrict yr = pass.y.re + R * p * s;
    T* __restrict yi = pass.y.im + R * p * s;
    T wr[R], wi[R];
    for (int k = 1; k < R; ++k) wr[k] = pass.w.re[p * k * pass.step], wi[k] = pass.w.im[p * k * pass.step];
    if (p == 0) {  // all factors are 1
#pragma GCC ivdep
      for (int64_t q = q0; q < q1; ++q) {
        T re[R], im[R];
        for (int j = 0; j < R; ++j) re[j] = xr[q + j * jump], im[j] = xi[q + j * jump];
        small_dft<T, R>(re, im);
        for (int k = 0; k < R; ++k) yr[q + k * s] = re[k], yi[q + k * s] = im[k];
      }
      continue;
    }
#pragma GCC ivdep
    for (int64_t q = q0; q < q1; ++q) {
      T re[R], im[R];
      for (int j = 0; j < R; ++j) re[j] = xr[q + j * jump], im[j] = xi[q + j * jump];
      small_dft<T, R>(re, im);
      yr[q] = re[0], yi[q] = im[0];
      for (int k = 1; k < R; ++k) {
        yr[q + k * s] = re[k] * wr[k] - im[k] * wi[k];
        yi[q + k * s] = re[k] * wi[k] + im[k] * wr[k];
      }
    }
  }
}

// A pass of any prime radix r, by the definition.
template <class T>
[[gnu::noinline]] void run_prime_pass(const Pass<T>& pass, int64_t r) {
  const int64_t s = pass.s, jump = pass.m * s, root = pass.n / r;
  for (int64_t p = pass.p0; p < pass.p1; ++p) {
    const T* __restrict xr = pass.x.re + p * s;
    const T* __restrict xi = pass.x.im + p * s;
    for (int64_t k = 0; k < r; ++k) {
      T* __restrict yr = pass.y.re + (r * p + k) * s;
      T* __restrict yi = pass.y.im + (r * p + k) * s;
      for (int64_t q = pass.q0; q < pass.q1; ++q) yr[q] = xr[q], yi[q] = xi[q];
      for (int64_t j = 1; j < r; ++j) {
        const T wr = pass.w.re[j * k % r * root], wi = pass.w.im[j * k % r * root];
        const T *ar = xr + j * jump, *ai = xi + j * jump;
        for (int64_t q = pass.q0; q < pass.q1; ++q) {
          yr[q] += ar[q] * wr - ai[q] * wi;
          yi[q] += ar[q] * wi + ai[q] * wr;
        }
      }
      if (p == 0 || k == 0) continue;
      const T wr = pass.w.re[p * k * pass.step], wi = pass.w.im[p * k * pass.step];
      for (int64_t q = pass.q0; q < pass.q1; ++q) {
        const T re = yr[q], im = yi[q];
        yr[q] = re * wr - im * wi;
        yi[q] = re * wi + im * wr;
      }
    }
  }
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
