// SPDX-License-Identifier: BSD-3-Clause
//
// A plan: the factors of a length and the numbers that its passes need. Twiddle factors are products of two entries of
// tables of about sqrt(n) values in long double, rounded once.
//
// A length with a prime factor above kLargestRadix is transformed as a convolution with a chirp (Bluestein), at a
// length of 2, 3 and 5 only. That doubles the depth of the computation, so it is always done in double.
#pragma once

#include <pthread.h>

#include <cmath>

#include "sim/kernels/base/common.h"
#include "sim/kernels/fft/fft_passes.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kLargestRadix = 31;

// Factors in the order of the passes; `rest` is the part that no small factor divides.
struct Factors {
  int count = 0;
  int64_t rest;
  int64_t radix[64];

  explicit Factors(int64_t n) : rest(n) {
    take(4);
    take(2);
    take(3);
    take(5);
    for (int64_t r = 7; r <= kLargestRadix; r += 2) take(r);
  }
  void take(int64_t r) {
    for (; rest % r == 0 && rest > 1; rest /= r) radix[count++] = r;
  }
};

inline bool needs_chirp(int64_t n) { return Factors(n).rest > 1; }

// Smallest 2^a 3^b 5^c that is at least n.
inline int64_t smooth_length(int64_t n) {
  int64_t best = 1;
  while (best < n) best *= 2;
  for (int64_t five = 1; five < best; five *= 5) {
    for (int64_t three = five; three < best; three *= 3) {
      int64_t x = three;
      while (x < n) x *= 2;
      if (x < best) best = x;
    }
  }
  return best;
}

// exp(-2 pi i k / n) for any k in [0, n).
class UnitRoots {
 public:
  explicit UnitRoots(int64_t n)
      : n_(n),
        block_(static_cast<int64_t>(std::sqrt(static_cast<double>(n))) + 1),
        fine_(2 * block_),
        coarse_(2 * (n / block_ + 1)) {
    if (!fine_ || !coarse_) return;
    for (int64_t b = 0; b < block_; ++b) set(fine_.get() + 2 * b, b);
    for (int64_t a = 0; a <= n / block_; ++a) set(coarse_.get() + 2 * a, a * block_);
  }
  explicit operator bool() const { return fine_ && coarse_; }
  template <class T>
  void get(int64_t k, T& re, T& im) const {
    if (4 * k % n_ == 0) {  // the axes, exactly
      const int64_t quarter = 4 * k / n_;
      re = static_cast<T>(quarter == 0 ? 1 : quarter == 2 ? -1 : 0);
      im = static_cast<T>(quarter == 1 ? -1 : quarter == 3 ? 1 : 0);
      return;
    }
    const long double *a = coarse_.get() + 2 * (k / block_), *b = fine_.get() + 2 * (k % block_);
    re = static_cast<T>(a[0] * b[0] - a[1] * b[1]);
    im = static_cast<T>(a[0] * b[1] + a[1] * b[0]);
  }

 private:
  void set(long double* out, int64_t k) const {
    const long double angle =
        -2 * 3.14159265358979323846264338327950288L * static_cast<long double>(k) / static_cast<long double>(n_);
    out[0] = cosl(angle), out[1] = sinl(angle);
  }
  int64_t n_, block_;
  ScratchArray<long double> fine_, coarse_;
};

template <class T>
struct Plan {
  const int64_t n;
  const Factors factors;
  const int64_t m;  // length of the convolution; 0: none
  ScratchArray<T> roots, half_roots, chirp, filter;
  Plan* inner = nullptr;
  Plan* next = nullptr;  // in the cache

  explicit Plan(int64_t length)
      : n(length),
        factors(length),
        m(factors.rest > 1 ? smooth_length(2 * length - 1) : 0),
        roots(m ? 0 : 2 * n),
        half_roots(n + 2),
        chirp(m ? 2 * n : 0),
        filter(2 * m) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  Split<const T> w() const { return {roots.get(), roots.get() + n}; }
  int64_t work_length() const { return m ? m : n; }
  int64_t bytes() const { return static_cast<int64_t>(sizeof(T)) * (m ? 4 * n + 4 * m : 3 * n); }
};

// Transforms `lanes` interleaved sequences from x; y is work memory of the same size. The result is in x, which may
// have changed places with y.
template <class T>
void run_passes(const Plan<T>& plan, Split<T>& x, Split<T>& y, int64_t lanes) {
  Pass<T> pass{};
  pass.n = plan.n, pass.w = plan.w();
  int64_t length = plan.n, s = lanes, step = 1;
  for (int i = 0; i < plan.factors.count; ++i) {
    const int64_t r = plan.factors.radix[i];
    pass.x = {x.re, x.im}, pass.y = y;
    pass.m = length / r, pass.s = s, pass.step = step;
    const bool by_sequence = pass.m >= 8;
    const int64_t work = r * s * pass.m, units = by_sequence ? pass.m : s;
    const int64_t grain = work <= 65536 ? units : 32768 / (work / units) + 1;
    parallel_for(units, grain, [&](int64_t begin, int64_t end) {
      Pass<T> part = pass;
      part.p0 = by_sequence ? begin : 0, part.p1 = by_sequence ? end : pass.m;
      part.q0 = by_sequence ? 0 : begin, part.q1 = by_sequence ? s : end;
      switch (r) {
        case 2:
          return run_pass<T, 2>(part);
        case 3:
          return run_pass<T, 3>(part);
        case 4:
          return run_pass<T, 4>(part);
        case 5:
          return run_pass<T, 5>(part);
        default:
          return run_prime_pass<T>(part, r);
      }
    });
    const Split<T> old = x;
    x = y, y = old;
    length /= r, s *= r, step *= r;
  }
}

// Multiplies element i of every lane by w[i].
template <class T>
void multiply(Split<T> x, Split<const T> w, int64_t n, int64_t lanes) {
  for (int64_t i = 0; i < n; ++i) {
    const T wr = w.re[i], wi = w.im[i];
    T* __restrict re = x.re + i * lanes;
    T* __restrict im = x.im + i * lanes;
    for (int64_t q = 0; q < lanes; ++q) {
      const T a = re[q], b = im[q];
      re[q] = a * wr - b * wi;
      im[q] = a * wi + b * wr;
    }
  }
}

// The forward transform. (Backward: with real and imaginary parts exchanged, before and after.)
template <class T>
void run_plan(const Plan<T>& plan, Split<T>& x, Split<T>& y, int64_t lanes) {
  if (plan.m == 0) return run_passes(plan, x, y, lanes);
  const Split<const T> chirp{plan.chirp.get(), plan.chirp.get() + plan.n};
  multiply(x, chirp, plan.n, lanes);
  for (int64_t i = plan.n * lanes; i < plan.m * lanes; ++i) x.re[i] = x.im[i] = 0;
  run_passes(*plan.inner, x, y, lanes);
  multiply(x, {plan.filter.get(), plan.filter.get() + plan.m}, plan.m, lanes);
  Split<T> u{x.im, x.re}, v{y.im, y.re};
  run_passes(*plan.inner, u, v, lanes);
  x = {u.im, u.re}, y = {v.im, v.re};
  multiply(x, chirp, plan.n, lanes);
}

template <class T>
void destroy(Plan<T>* plan) {
  if (plan == nullptr) return;
  destroy(plan->inner);
  plan->~Plan<T>();
  std::free(plan);
}

// Null: no memory.
template <class T>
Plan<T>* make_plan(int64_t n) {
  void* memory = std::malloc(sizeof(Plan<T>));
  if (memory == nullptr) return nullptr;
  Plan<T>* plan = new (memory) Plan<T>(n);
  const UnitRoots whole(n), twice(2 * n);
  bool ok = whole && twice && plan->roots && plan->half_roots && plan->chirp && plan->filter;
  if (ok) {
    T* half = plan->half_roots.get();  // exp(-pi i k / n) for k <= n / 2: a real transform of 2 n
    for (int64_t k = 0; k <= n / 2; ++k) twice.get(k, half[k], half[n / 2 + 1 + k]);
  }
  if (ok && plan->m == 0) {
    T* w = plan->roots.get();
    for (int64_t k = 0; k < n; ++k) whole.get(k, w[k], w[n + k]);
  } else if (ok) {
    const int64_t m = plan->m;
    T *c = plan->chirp.get(), *b = plan->filter.get();
    for (int64_t i = 0; i < 2 * m; ++i) b[i] = 0;
    int64_t square = 0;  // k * k modulo 2 n
    for (int64_t k = 0; k < n; ++k) {
      twice.get(square, c[k], c[n + k]);
      square = (square + 2 * k + 1) % (2 * n);
      const int64_t mirrored = k == 0 ? 0 : m - k;
      b[k] = b[mirrored] = c[k] / static_cast<T>(m);
      b[m + k] = b[m + mirrored] = -c[n + k] / static_cast<T>(m);
    }
    plan->inner = make_plan<T>(m);
    ScratchArray<T> work(2 * m);
    ok = plan->inner != nullptr && work;
    if (ok) {
      Split<T> x{b, b + m}, y{work.get(), work.get() + m};
      run_passes(*plan->inner, x, y, 1);
      if (x.re != b) {
        for (int64_t i = 0; i < 2 * m; ++i) b[i] = x.re[i];
      }
    }
  }
  if (ok) return plan;
  destroy(plan);
  return nullptr;
}

// Plans stay for the life of the process until they take kCacheBytes; later ones live for one launch.
template <class T>
class PlanHandle {
 public:
  explicit PlanHandle(int64_t n) {
    pthread_mutex_lock(&mutex_);
    for (Plan<T>* p = first_; p != nullptr && plan_ == nullptr; p = p->next) {
      if (p->n == n) plan_ = p;
    }
    if (plan_ == nullptr && (plan_ = make_plan<T>(n)) != nullptr) {
      owned_ = bytes_ + plan_->bytes() > kCacheBytes;
      if (!owned_) {
        bytes_ += plan_->bytes();
        plan_->next = first_;
        first_ = plan_;
      }
    }
    pthread_mutex_unlock(&mutex_);
  }
  PlanHandle(const PlanHandle&) = delete;
  PlanHandle& operator=(const PlanHandle&) = delete;
  ~PlanHandle() {
    if (owned_) destroy(plan_);
  }
  const Plan<T>* get() const { return plan_; }

 private:
  static constexpr int64_t kCacheBytes = int64_t{64} << 20;
  static inline pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  static inline Plan<T>* first_ = nullptr;
  static inline int64_t bytes_ = 0;
  Plan<T>* plan_ = nullptr;
  bool owned_ = false;
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
