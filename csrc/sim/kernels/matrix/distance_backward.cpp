// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of cdist and pdist: each row collects, from every row that it was measured against and in their order,
// grad * sign(d) |d|^(p - 1) / distance^(p - 1). A distance of zero gives nothing.
//
// Instruction sets: up to avx2
#include <cmath>

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Cdist = CdistBackwardOperands;

using Pdist = PdistBackwardOperands;

// NaN of NaN.
template <class T>
T sign(T x) {
  return std::isnan(x) ? x : static_cast<T>((x > 0) - (x < 0));
}

// out[i] += the share of elements a[i], b[i] in a gradient of their rows' distance.
template <class T>
void add_share(T* out, const T* a, const T* b, int64_t k, T p, T grad, T distance) {
  if (p == 1) {
    for (int64_t i = 0; i < k; ++i) out[i] += grad * sign(a[i] - b[i]);
    return;
  }
  if (distance == 0 || p == 0) return;
  if (p == 2) {
    const T scale = grad / distance;
    for (int64_t i = 0; i < k; ++i) out[i] += scale * (a[i] - b[i]);
  } else if (std::isinf(p)) {
    for (int64_t i = 0; i < k; ++i) {
      const T d = a[i] - b[i];
      out[i] += std::fabs(d) == distance ? grad * sign(d) : T(0);
    }
  } else {
    const T scale = grad / std::pow(distance, p - 1);
    for (int64_t i = 0; i < k; ++i) {
      const T d = a[i] - b[i];
      out[i] += d == 0 ? T(0) : sign(d) * std::pow(std::fabs(d), p - 1) * scale;
    }
  }
}

template <class T>
void cdist_backward(const Launch& l, T p) {
  const int64_t m = l.operand(Cdist::kX).sizes[1], n = l.operand(Cdist::kY).sizes[1], k = l.operand(Cdist::kX).sizes[2];
  parallel_for(l.operand(Cdist::kX).sizes[0] * m, grain_for(n * (k + 4)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T *grad = l.ptr<const T>(Cdist::kGradOutput) + r * n, *x = l.ptr<const T>(Cdist::kX) + r * k,
              *dist = l.ptr<const T>(Cdist::kDistances) + r * n;
      const T* y = l.ptr<const T>(Cdist::kY) + r / m * n * k;
      T* out = l.ptr<T>(Cdist::kGradX) + r * k;
      for (int64_t i = 0; i < k; ++i) out[i] = 0;
      for (int64_t j = 0; j < n; ++j) add_share(out, x, y + j * k, k, p, grad[j], dist[j]);
    }
  });
}

template <class T>
void pdist_backward(const Launch& l, T p) {
  const int64_t n = l.operand(Pdist::kX).sizes[0], k = l.operand(Pdist::kX).sizes[1];
  const T *grad = l.ptr<const T>(Pdist::kGradOutput), *x = l.ptr<const T>(Pdist::kX),
          *dist = l.ptr<const T>(Pdist::kDistances);
  parallel_for(n, grain_for(n * (k + 4)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* out = l.ptr<T>(Pdist::kGradX) + i * k;
      for (int64_t c = 0; c < k; ++c) out[c] = 0;
      for (int64_t j = 0; j < n; ++j) {
        if (i == j) continue;
        const int64_t low = i < j ? i : j, high = i < j ? j : i;
        const int64_t pair = low * (2 * n - low - 1) / 2 + high - low - 1;
        add_share(out, x + i * k, x + j * k, k, p, grad[pair], dist[pair]);
      }
    }
  });
}

// out, x [b, m, k], grad, distances [b, m, n], y [b, n, k].
atalla_status run_cdist_backward(const Launch& l) {
  const atalla_operand& x = l.operand(Cdist::kX);
  if (element_count(x) == 0) return ATALLA_OK;
  const double p = CdistBackwardParameters::read(l.desc).p;
  if (x.dtype == ATALLA_F64) cdist_backward<double>(l, p);
  else cdist_backward<float>(l, static_cast<float>(p));
  return ATALLA_OK;
}

// out, x [n, k], grad and distances [n (n - 1) / 2].
atalla_status run_pdist_backward(const Launch& l) {
  const atalla_operand& x = l.operand(Pdist::kX);
  if (element_count(x) == 0) return ATALLA_OK;
  const double p = PdistBackwardParameters::read(l.desc).p;
  if (x.dtype == ATALLA_F64) pdist_backward<double>(l, p);
  else pdist_backward<float>(l, static_cast<float>(p));
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily distance_backward_kernels = {
    {"cdist_backward", kWideFloatDtypes, run_cdist_backward},
    {"pdist_backward", kWideFloatDtypes, run_pdist_backward},
};

}  // namespace atalla::sim::ATALLA_ISA
