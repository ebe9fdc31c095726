// SPDX-License-Identifier: BSD-3-Clause
//
// The gradient of segment_reduce. Elements that share an extreme share its gradient; rows outside all segments get
// none.
//
// Instruction sets: up to avx2
#include "sim/kernels/index/segment.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = SegmentReduceBackwardOperands;

// One column of one segment: x and out are `stride` apart.
template <class S, class C>
void segment_gradient(SegmentReduction kind, S* out, const S* x, int64_t stride, int64_t n, C grad, C result,
                      C initial) {
  auto at = [&](int64_t j) { return convert<C>(x[j * stride]); };
  auto put = [&](int64_t j, C value) { out[j * stride] = convert<S>(value); };
  switch (kind) {
    case SegmentReduction::kSum:
      for (int64_t j = 0; j < n; ++j) put(j, grad);
      break;
    case SegmentReduction::kMean:
      for (int64_t j = 0; j < n; ++j) put(j, grad / static_cast<C>(n));
      break;
    case SegmentReduction::kMax:
    case SegmentReduction::kMin: {
      int64_t ties = 0;
      for (int64_t j = 0; j < n; ++j) ties += at(j) != at(j) || at(j) == result;
      for (int64_t j = 0; j < n; ++j) {
        const bool extreme = at(j) != at(j) || at(j) == result;
        put(j, extreme ? (ties > 1 ? grad / static_cast<C>(ties) : grad) : C(0));
      }
      break;
    }
    case SegmentReduction::kProd:
      for (int64_t j = 0; j < n; ++j) {
        if (at(j) == at(j) && at(j) != 0) {
          put(j, grad * result / at(j));
          continue;
        }
        C others = initial;  // a quotient would not tell
        for (int64_t k = 0; k < n; ++k) others *= k == j ? C(1) : at(k);
        put(j, grad * others);
      }
  }
}

template <class S>
void segment_gradients(const Launch& l) {
  using C = std::conditional_t<std::is_same_v<S, double>, double, float>;
  const atalla_operand& data = l.operand(Operand::kData);
  const Segments segments(l, 4);
  const SegmentReduceBackwardParameters p = SegmentReduceBackwardParameters::read(l.desc);
  const SegmentReduction kind = p.reduction;
  const C initial = p.has_initial ? static_cast<C>(p.initial) : C(1);
  const int64_t n = data.sizes[1], inner = data.sizes[2];
  parallel_for(data.sizes[0] * inner, grain_for(4 * n), [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const int64_t o = t / inner, c = t % inner;
      S* out = l.ptr<S>(Operand::kGradData) + o * n * inner + c;
      const S* x = l.ptr<const S>(Operand::kData) + o * n * inner + c;
      for (int64_t j = 0; j < n; ++j) out[j * inner] = convert<S>(C(0));
      int64_t begin = 0, end = 0;
      for (int64_t s = 0; s < segments.count; ++s) {
        segments.bounds(o, s, end, &begin, &end);
        const int64_t place = (o * segments.count + s) * inner + c;
        segment_gradient<S, C>(kind, out + begin * inner, x + begin * inner, inner, end - begin,
                               convert<C>(l.ptr<const S>(Operand::kGradOutput)[place]),
                               convert<C>(l.ptr<const S>(Operand::kResult)[place]), initial);
      }
    }
  });
}

atalla_status run_segment_reduce_backward(const Launch& l) {
  const atalla_operand& data = l.operand(Operand::kData);
  ATALLA_CHECK(check_numbers(l, Operand::kNumbers, data.sizes[1]));
  if (element_count(data) == 0) return ATALLA_OK;
  dispatch_dtype(data.dtype, [&]<class S>(S) {
    if constexpr (std::is_floating_point_v<S> || kIsHalf<S>) segment_gradients<S>(l);
  });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily segment_backward_kernels = {
    {"segment_reduce_backward", kFloatDtypes, run_segment_reduce_backward},
};

}  // namespace atalla::sim::ATALLA_ISA
