// SPDX-License-Identifier: BSD-3-Clause
//
// The rules of the optimizers, and the loop that brings blocks of the operands to them. A rule is constructed once a
// launch, which is when step counts, learning rates and scales are read; it is then applied to blocks in place.
#pragma once

#include <cmath>

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = OptimizerAdamOperands;  // the other optimizers have the same
constexpr int kOptimizerOutputs = Operand::kStep, kOptimizerOperands = Operand::kFoundInf + 1, kMaxStates = 3;

// The value of a one-element operand, or `absent`.
inline double single_value(const Launch& l, int i, double absent) {
  return l.data[i] == nullptr ? absent : element_of<double>(l.data[i], l.operand(i).dtype, 0);
}

ATALLA_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
ATALLA_INLINE double square_root(double x) { return __builtin_sqrt(x); }

// What the rules share.
template <class T>
struct Rule {
  double rate;
  T scale, sign, decay;
  bool unscales;

  template <class Parameters>
  Rule(const Launch& l, const Parameters& p)
      : rate(single_value(l, Operand::kLearningRate, p.learning_rate)),
        scale(static_cast<T>(single_value(l, Operand::kGradScale, 1))),
        sign(p.maximize ? T(-1) : T(1)),
        decay(static_cast<T>(p.weight_decay)),
        unscales(l.data[Operand::kGradScale] != nullptr) {}
};

// D. Kingma, J. Ba, "Adam", ICLR 2015; with decoupled decay: I. Loshchilov, F. Hutter, ICLR 2019; with the maximum:
// S. Reddi, S. Kale, S. Kumar, ICLR 2018.
template <class T>
struct Adam : Rule<T> {
  using Parameters = OptimizerAdamParameters;
  T beta1, rest1, beta2, rest2, eps, step_size, root, shrink;
  bool decoupled, maximum;

  Adam(const Launch& l, const Parameters& p) : Rule<T>(l, p) {
    const double step = single_value(l, Operand::kStep, 1), b1 = p.betas[0], b2 = p.betas[1];
    beta1 = static_cast<T>(b1), rest1 = static_cast<T>(1 - b1);
    beta2 = static_cast<T>(b2), rest2 = static_cast<T>(1 - b2);
    eps = static_cast<T>(p.eps);
    step_size = static_cast<T>(this->rate / (1 - std::pow(b1, step)));
    root = static_cast<T>(std::sqrt(1 - std::pow(b2, step)));
    decoupled = p.decoupled;
    shrink = static_cast<T>(1 - this->rate * p.weight_decay);
    maximum = l.data[Operand::kState0 + 2] != nullptr;
  }

  template <bool kDecoupled, bool kMaximum>
  void apply(T* p, T* g, T* average, T* square, T* most, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      g[i] /= this->scale;
      T gradient = g[i] * this->sign, value = p[i];
      if constexpr (kDecoupled) value *= shrink;
      else gradient += value * this->decay;
      average[i] = average[i] * beta1 + gradient * rest1;
      square[i] = square[i] * beta2 + gradient * gradient * rest2;
      T second = square[i];
      if constexpr (kMaximum) {
        most[i] = second > most[i] || second != second ? second : most[i];
        second = most[i];
      }
      p[i] = value - step_size * average[i] / (square_root(second) / root + eps);
    }
  }
  void operator()(T* const (&x)[kOptimizerOutputs], int64_t n) const {
    T *p = x[0], *g = x[1], *a = x[2], *s = x[3], *m = x[4];
    if (decoupled) maximum ? apply<true, true>(p, g, a, s, m, n) : apply<true, false>(p, g, a, s, m, n);
    else maximum ? apply<false, true>(p, g, a, s, m, n) : apply<false, false>(p, g, a, s, m, n);
  }
};

template <class T>
struct Sgd : Rule<T> {
  using Parameters = OptimizerSgdParameters;
  T momentum, rest, step_size;
  bool nesterov, first;

  Sgd(const Launch& l, const Parameters& p) : Rule<T>(l, p) {
    momentum = static_cast<T>(p.momentum);
    rest = static_cast<T>(1 - p.dampening);
    step_size = static_cast<T>(this->rate);
    nesterov = p.nesterov, first = p.first_step;
  }
  void operator()(T* const (&x)[kOptimizerOutputs], int64_t n) const {
    T *p = x[0], *g = x[1], *buffer = x[2];
    if (buffer == nullptr || momentum == 0) {
      for (int64_t i = 0; i < n; ++i) {
        g[i] /= this->scale;
        p[i] -= (g[i] * this->sign + p[i] * this->decay) * step_size;
      }
      return;
    }
    const T kept = first ? T(0) : momentum, added = first ? T(1) : rest;
    const T direct = nesterov ? T(1) : T(0), through = nesterov ? momentum : T(1);
    for (int64_t i = 0; i < n; ++i) {
      g[i] /= this->scale;
      const T gradient = g[i] * this->sign + p[i] * this->decay;
      const T old = first ? T(0) : buffer[i];  // the first step does not look at the buffer
      buffer[i] = old * kept + gradient * added;
      p[i] -= (gradient * direct + buffer[i] * through) * step_size;
    }
  }
};

// J. Duchi, E. Hazan, Y. Singer, JMLR 2011.
template <class T>
struct Adagrad : Rule<T> {
  using Parameters = OptimizerAdagradParameters;
  T step_size, eps;

  Adagrad(const Launch& l, const Parameters& p) : Rule<T>(l, p) {
    step_size = static_cast<T>(this->rate / (1 + (single_value(l, Operand::kStep, 1) - 1) * p.learning_rate_decay));
    eps = static_cast<T>(p.eps);
  }
  void operator()(T* const (&x)[kOptimizerOutputs], int64_t n) const {
    T *p = x[0], *g = x[1], *sum = x[2];
    for (int64_t i = 0; i < n; ++i) {
      g[i] /= this->scale;
      const T gradient = g[i] * this->sign + p[i] * this->decay;
      sum[i] += gradient * gradient;
      p[i] -= step_size * gradient / (square_root(sum[i]) + eps);
    }
  }
};

template <class T, class R>
void run_step(const Launch& l, const R& rule) {
  constexpr int64_t kBlock = 512;
  Dims<kOptimizerOutputs> dims;
  const atalla_operand& p = l.operand(Operand::kParameter);
  for (int d = 0; d < p.ndim; ++d) {
    int64_t s[kOptimizerOutputs];
    for (int k = 0; k < kOptimizerOutputs; ++k) s[k] = l.data[k] ? l.operand(k).strides[d] : 0;
    dims.add_array(p.sizes[d], s, true);  // an absent operand has stride 0 throughout, so it does not hinder merging
  }
  int64_t strides[kOptimizerOutputs];
  const int64_t inner = dims.pop(strides);
  const auto part = [&](const Cursor<kOptimizerOutputs>& row, int64_t first, int64_t n) {
    alignas(64) T buffers[kOptimizerOutputs][kBlock];
    T* x[kOptimizerOutputs] = {};
    void* place[kOptimizerOutputs] = {};
    for (int k = 0; k < kOptimizerOutputs; ++k) {
      if (l.data[k] == nullptr) continue;
      const atalla_dtype dtype = l.operand(k).dtype;
      place[k] = at(l.data[k], dtype, row.offsets[k] + first * strides[k]);
      // The gradient goes through its buffer, so that it stays as it is where it is not unscaled.
      const bool direct =
          dtype == kNativeOf<T> && (strides[k] == 1 || n == 1) && (k != Operand::kGradient || rule.unscales);
      x[k] = direct ? static_cast<T*>(place[k]) : buffers[k];
      if (!direct) load_run(place[k], dtype, strides[k], n, x[k]);
    }
    rule(x, n);
    for (int k = 0; k < kOptimizerOutputs; ++k) {
      if (x[k] != buffers[k] || (k == Operand::kGradient && !rule.unscales)) continue;
      store_run(x[k], n, place[k], l.operand(k).dtype, strides[k]);
    }
  };
  for_each_part(dims, inner, kBlock, grain_for(min_of(inner, kBlock)), part);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
