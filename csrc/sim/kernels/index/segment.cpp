// SPDX-License-Identifier: BSD-3-Clause
//
// segment_reduce: consecutive segments of a dimension, given by their lengths or by offsets, reduced each on its own.
//
// Instruction sets: up to avx2
#include "sim/kernels/index/segment.h"

#include <limits>

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = SegmentReduceOperands;

constexpr int64_t kColumns = 256;

template <class C>
C start_of(SegmentReduction kind) {
  constexpr C kInfinity = std::numeric_limits<C>::infinity();
  return kind == SegmentReduction::kMax    ? -kInfinity
         : kind == SegmentReduction::kMin  ? kInfinity
         : kind == SegmentReduction::kProd ? C(1)
                                           : C(0);
}

template <SegmentReduction kKind, class C>
[[gnu::always_inline]] inline C step(C a, C x) {
  if constexpr (kKind == SegmentReduction::kMax) return x != x || x > a ? x : a;
  else if constexpr (kKind == SegmentReduction::kMin) return x != x || x < a ? x : a;
  else if constexpr (kKind == SegmentReduction::kProd) return a * x;
  else return a + x;
}

template <class S, SegmentReduction kKind>
void reduce_segments(const Launch& l) {
  using C = std::conditional_t<std::is_same_v<S, double>, double, float>;
  const atalla_operand &out = l.operand(Operand::kOut), &data = l.operand(Operand::kData);
  const Segments segments(l, 2);
  const int64_t outer = out.sizes[0], inner = out.sizes[2], n = data.sizes[1];
  const SegmentReduceParameters p = SegmentReduceParameters::read(l.desc);
  const C start = p.has_initial ? static_cast<C>(p.initial) : start_of<C>(kKind);
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  parallel_for(outer * blocks, grain_for(n * (inner < kColumns ? inner : kColumns)), [&](int64_t first, int64_t last) {
    C acc[kColumns], row[kColumns];
    for (int64_t t = first; t < last; ++t) {
      const int64_t o = t / blocks, c = t % blocks * kColumns;
      const int64_t columns = inner - c < kColumns ? inner - c : kColumns;
      int64_t begin = 0, end = 0;
      for (int64_t s = 0; s < segments.count; ++s) {
        segments.bounds(o, s, end, &begin, &end);
        for (int64_t i = 0; i < columns; ++i) acc[i] = start;
        for (int64_t j = begin; j < end; ++j) {
          load_run(l.ptr<const S>(Operand::kData) + (o * n + j) * inner + c, data.dtype, 1, columns, row);
          for (int64_t i = 0; i < columns; ++i) acc[i] = step<kKind>(acc[i], row[i]);
        }
        if (kKind == SegmentReduction::kMean) {
          const int64_t length = end - begin;
          for (int64_t i = 0; i < columns; ++i) {
            if (length > 0) acc[i] /= static_cast<C>(length);
            else if (!p.has_initial) acc[i] = std::numeric_limits<C>::quiet_NaN();
          }
        }
        store_run(acc, columns, l.ptr<S>(Operand::kOut) + (o * segments.count + s) * inner + c, out.dtype, 1);
      }
    }
  });
}

atalla_status run_segment_reduce(const Launch& l) {
  ATALLA_CHECK(check_numbers(l, Operand::kNumbers, l.operand(Operand::kData).sizes[1]));
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  dispatch_dtype(l.operand(Operand::kData).dtype, [&]<class S>(S) {
    if constexpr (std::is_floating_point_v<S> || kIsHalf<S>) {
      switch (SegmentReduceParameters::read(l.desc).reduction) {
        case SegmentReduction::kSum:
          return reduce_segments<S, SegmentReduction::kSum>(l);
        case SegmentReduction::kMean:
          return reduce_segments<S, SegmentReduction::kMean>(l);
        case SegmentReduction::kMax:
          return reduce_segments<S, SegmentReduction::kMax>(l);
        case SegmentReduction::kMin:
          return reduce_segments<S, SegmentReduction::kMin>(l);
        case SegmentReduction::kProd:
          return reduce_segments<S, SegmentReduction::kProd>(l);
      }
    }
  });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily segment_kernels = {{"segment_reduce", kFloatDtypes, run_segment_reduce}};

}  // namespace atalla::sim::ATALLA_ISA
