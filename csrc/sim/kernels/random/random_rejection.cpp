// SPDX-License-Identifier: BSD-3-Clause
//
// random.poisson, .binomial and .gamma: draws by rejection. Element i (row-major) draws from counter offset + i, as
// many streams of it as it needs, so that its value depends on the seed, its position offset + i and its parameters
// alone. The streams begin at 2^63: the other kernels, which give four positions to a counter, use streams 0 and 1. All
// arithmetic is in double.
//
// Instruction sets: up to avx2
#include <cmath>

#include "sim/kernels/base/common.h"
#include "sim/kernels/random/random_philox.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = RandomBinomialOperands;

// std::lgamma writes a variable of the whole process, which other threads write too.
double log_gamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// The sequence of uniform numbers of one element.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t counter) : seed_(seed), counter_(counter) {}
  // In (0, 1), on the midpoints of a grid of 2^-53.
  double uniform() {
    if (next_ == 4) refill();
    const uint64_t high = words_[next_][0], low = words_[next_ + 1][0];
    next_ += 2;
    return (static_cast<double>((high << 32 | low) >> 12) + 0.5) * 0x1p-52;
  }
  // G. Marsaglia, T. Bray, "A convenient method for generating normal variables", 1964.
  double normal() {
    for (;;) {
      const double x = 2 * uniform() - 1, y = 2 * uniform() - 1, s = x * x + y * y;
      if (s < 1 && s > 0) return x * std::sqrt(-2 * std::log(s) / s);
    }
  }

 private:
  void refill() {
    philox_4x32_10(seed_, counter_, stream_++, words_);
    next_ = 0;
  }

  uint64_t seed_, counter_, stream_ = uint64_t{1} << 63;
  uint32_t words_[4][1] = {};
  int next_ = 4;
};

// From 10 on W. Hörmann, "The transformed rejection method for generating Poisson random variables" (PTRS), 1993; below
// it, products of uniform numbers.
double poisson(Draws& draws, double rate) {
  if (rate == 0 || std::isinf(rate)) return rate;
  if (rate < 10) {
    const double limit = std::exp(-rate);
    double product = draws.uniform();
    int64_t k = 0;
    for (; product > limit; ++k) product *= draws.uniform();
    return static_cast<double>(k);
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accept = 0.9277 - 3.6224 / (b - 2),
               log_rate = std::log(rate);
  for (;;) {
    const double u = draws.uniform() - 0.5, v = draws.uniform(), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= accept) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        -rate + k * log_rate - log_gamma(k + 1)) {
      return k;
    }
  }
}

// The tail of Stirling's series: log k! - (k + 1/2) log(k + 1) + (k + 1) - log(2 pi) / 2.
double stirling_tail(double k) {
  const double x = k + 1, r = 1 / x, s = r * r;
  if (k < 10) return log_gamma(x) - (k + 0.5) * std::log(x) + x - 0.91893853320467274178;
  return (1.0 / 12 - (1.0 / 360 - s / 1260) * s) * r;
}

// p <= 1/2. From a mean of 10 on W. Hörmann, "The generation of binomial random variates" (BTRS), 1993; below it, sums
// of geometric waiting times.
double binomial_lower(Draws& draws, double n, double p) {
  const double q = 1 - p;
  if (n * p < 10) {
    const double log_q = std::log1p(-p);
    double k = 0, position = 0;
    for (;; ++k) {
      position += std::ceil(std::log(draws.uniform()) / log_q);
      if (position > n) return k;
    }
  }
  const double deviation = std::sqrt(n * p * q), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double center = n * p + 0.5, accept = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * deviation, odds = p / q;
  const double m = std::floor((n + 1) * p);
  for (;;) {
    const double u = draws.uniform() - 0.5, us = 0.5 - std::fabs(u);
    double v = draws.uniform();
    const double k = std::floor((2 * a / us + b) * u + center);
    if (us >= 0.07 && v <= accept) return k;
    if (k < 0 || k > n) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (m + 0.5) * std::log((m + 1) / (odds * (n - m + 1))) +
                         (n + 1) * std::log((n - m + 1) / (n - k + 1)) +
                         (k + 0.5) * std::log(odds * (n - k + 1) / (k + 1)) + stirling_tail(m) + stirling_tail(n - m) -
                         stirling_tail(k) - stirling_tail(n - k);
    if (v <= bound) return k;
  }
}

// A count below 0 is one of 0, and a probability outside [0, 1] the nearer end.
double binomial(Draws& draws, double n, double p) {
  if (n <= 0 || p <= 0) return 0;
  if (p >= 1) return n;
  if (std::isnan(p) || !std::isfinite(n)) return NAN;
  n = std::floor(n);
  return p <= 0.5 ? binomial_lower(draws, n, p) : n - binomial_lower(draws, n, 1 - p);
}

// G. Marsaglia, W. Tsang, "A simple method for generating gamma variables", 2000; below 1 from alpha + 1 with a power
// of a uniform number.
double gamma(Draws& draws, double alpha) {
  if (!(alpha >= 0) || std::isinf(alpha)) return alpha > 0 ? alpha : NAN;
  double scale = 1;
  if (alpha < 1) {
    scale = std::pow(draws.uniform(), 1 / alpha);
    alpha += 1;
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draws.normal(), y = 1 + c * x;
    if (y <= 0) continue;
    const double v = y * y * y, u = draws.uniform(), xx = x * x;
    if (u < 1 - 0.0331 * xx * xx || std::log(u) < 0.5 * xx + d * (1 - v + std::log(v))) return scale * d * v;
  }
}

// Visits the elements with their parameters. f(index, value of parameter 0, value of parameter 1, place of the result)
template <class F>
void each_element(const Launch& l, F&& f) {
  const atalla_operand &out = l.operand(Operand::kOut), &first = l.operand(Operand::kCount),
                       &second = l.operand(l.desc.n_operands - 1);
  const int last = l.desc.n_operands - 1;
  Dims<3> dims;
  for (int d = 0; d < out.ndim; ++d) dims.add(out.sizes[d], out.strides[d], first.strides[d], second.strides[d]);
  parallel_for(element_count(out), 1024, [&](int64_t begin, int64_t end) {
    Cursor<3> at_element(dims, begin);
    for (int64_t i = begin; i < end; ++i, at_element.next()) {
      f(i, element_of<double>(l.data[Operand::kCount], first.dtype, at_element.offsets[1]),
        element_of<double>(l.data[last], second.dtype, at_element.offsets[2]),
        at(l.data[Operand::kOut], out.dtype, at_element.offsets[0]));
    }
  });
}

using Sample = double (*)(Draws&, double, double);

// `valid` is asked of every element before anything is written.
template <class Valid>
atalla_status run(const Launch& l, const char* complaint, Sample sample, Valid&& valid) {
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  bool ok = true;
  each_element(l, [&](int64_t, double a, double b, void*) {
    if (!valid(a, b)) __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
  });
  if (!ok) return set_error(ATALLA_ERR_FAULT_KERNEL, "%s", complaint);
  const RandomPoissonParameters p = RandomPoissonParameters::read(l.desc);
  const uint64_t seed = static_cast<uint64_t>(p.seed), offset = static_cast<uint64_t>(p.offset);
  const atalla_dtype dtype = l.operand(Operand::kOut).dtype;
  each_element(l, [&](int64_t i, double a, double b, void* place) {
    Draws draws(seed, offset + static_cast<uint64_t>(i));
    const double value = sample(draws, a, b);
    store_run(&value, 1, place, dtype, 1);
  });
  return ATALLA_OK;
}

atalla_status run_poisson(const Launch& l) {
  return run(
      l, "invalid Poisson rate, expected rate to be non-negative",
      [](Draws& draws, double rate, double) { return poisson(draws, rate); },
      [](double rate, double) { return rate >= 0; });
}

atalla_status run_binomial(const Launch& l) {
  return run(l, "", binomial, [](double, double) { return true; });
}

atalla_status run_gamma(const Launch& l) {
  return run(
      l, "", [](Draws& draws, double alpha, double) { return gamma(draws, alpha); },
      [](double, double) { return true; });
}

}  // namespace

extern constexpr KernelFamily random_rejection_kernels = {
    {"random.poisson", kFloatDtypes, run_poisson},
    {"random.binomial", kFloatDtypes, run_binomial},
    {"random.gamma", kFloatDtypes, run_gamma},
};

}  // namespace atalla::sim::ATALLA_ISA
