// SPDX-License-Identifier: BSD-3-Clause
//
// segment_reduce: consecutive segments of a dimension, given by their lengths or by offsets, reduced each on its own.
#include <limits>

#include "dispatch.h"
#include "dispatch_check.h"
#include "dispatch_dims.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

enum class Kind { Sum, Mean, Max, Min, Prod };
constexpr int64_t kColumns = 256;

bool contiguous(const atalla_operand& o) {
  int64_t expected = 1;
  for (int d = o.ndim - 1; d >= 0; --d) {
    if (o.sizes[d] != 1 && o.strides[d] != expected) return false;
    expected *= o.sizes[d];
  }
  return true;
}

int64_t number(const Launch& l, int64_t i) {
  return l.operand(2).dtype == ATALLA_I64 ? l.ptr<const int64_t>(2)[i] : l.ptr<const int32_t>(2)[i];
}

// Where segment s of outer index o begins and ends.
struct Segments {
  const Launch& l;
  bool offsets;
  int64_t count, per_outer;

  explicit Segments(const Launch& launch) : l(launch), offsets(l.desc.iparams[1] != 0) {
    per_outer = l.operand(2).sizes[1];
    count = offsets ? per_outer - 1 : per_outer;
  }
  // begin of segment 0 must be given for lengths: the running sum.
  void bounds(int64_t o, int64_t s, int64_t sum, int64_t* begin, int64_t* end) const {
    *begin = offsets ? number(l, o * per_outer + s) : sum;
    *end = offsets ? number(l, o * per_outer + s + 1) : sum + number(l, o * per_outer + s);
  }
};

template <class C>
C start_of(Kind kind) {
  constexpr C kInfinity = std::numeric_limits<C>::infinity();
  return kind == Kind::Max ? -kInfinity : kind == Kind::Min ? kInfinity : kind == Kind::Prod ? C(1) : C(0);
}

template <Kind kKind, class C>
[[gnu::always_inline]] inline C step(C a, C x) {
  if constexpr (kKind == Kind::Max) return x != x || x > a ? x : a;
  else if constexpr (kKind == Kind::Min) return x != x || x < a ? x : a;
  else if constexpr (kKind == Kind::Prod) return a * x;
  else return a + x;
}

template <class S, Kind kKind>
void reduce_segments(const Launch& l) {
  using C = std::conditional_t<std::is_same_v<S, double>, double, float>;
  const atalla_operand &out = l.operand(0), &data = l.operand(1);
  const Segments segments(l);
  const int64_t outer = out.sizes[0], inner = out.sizes[2], n = data.sizes[1];
  const bool given = l.desc.iparams[2] != 0;
  const C start = given ? static_cast<C>(l.desc.fparams[0]) : start_of<C>(kKind);
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
          load_run(l.ptr<const S>(1) + (o * n + j) * inner + c, data.dtype, 1, columns, row);
          for (int64_t i = 0; i < columns; ++i) acc[i] = step<kKind>(acc[i], row[i]);
        }
        if (kKind == Kind::Mean) {
          const int64_t length = end - begin;
          for (int64_t i = 0; i < columns; ++i) {
            if (length > 0) acc[i] /= static_cast<C>(length);
            else if (!given) acc[i] = std::numeric_limits<C>::quiet_NaN();
          }
        }
        store_run(acc, columns, l.ptr<S>(0) + (o * segments.count + s) * inner + c, out.dtype, 1);
      }
    }
  });
}

atalla_status check_segments(const Launch& l) {
  const char* name = "segment_reduce";
  ATALLA_CHECK(check_operands(name, l.desc, 1, 3, 3));
  const atalla_operand &out = l.operand(0), &data = l.operand(1), &numbers = l.operand(2);
  ATALLA_CHECK(check_dtype(name, "the data", data.dtype, kFloatDtypes));
  ATALLA_CHECK(check_same_dtype(name, l, 1, 0));
  ATALLA_CHECK(check_dtype(name, "a length", numbers.dtype, dtype_bit(ATALLA_I32) | dtype_bit(ATALLA_I64)));
  for (int i = 0; i < 3; ++i) {
    ATALLA_CHECK(check_present(name, l, i));
    if (!contiguous(l.operand(i))) return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d is not contiguous", name, i);
  }
  const int64_t extra = l.desc.iparams[1] != 0;
  const bool fits = out.ndim == 3 && data.ndim == 3 && numbers.ndim == 2 && out.sizes[0] == data.sizes[0] &&
                    out.sizes[2] == data.sizes[2] && numbers.sizes[0] == out.sizes[0] &&
                    numbers.sizes[1] == out.sizes[1] + extra && l.desc.iparams[0] >= 0 && l.desc.iparams[0] <= 4;
  if (!fits) return set_error(ATALLA_ERR_ARGUMENT, "%s: sizes of the result, the data and the segments differ", name);
  const Segments segments(l);
  for (int64_t o = 0; o < out.sizes[0]; ++o) {
    int64_t begin = 0, end = 0;
    for (int64_t s = 0; s < segments.count; ++s) {
      segments.bounds(o, s, end, &begin, &end);
      if (begin >= 0 && begin <= end && end <= data.sizes[1]) continue;
      return set_error(ATALLA_ERR_FAULT_INDEX, "%s: segment [%lld, %lld) is out of range for %lld rows", name,
                       static_cast<long long>(begin), static_cast<long long>(end),
                       static_cast<long long>(data.sizes[1]));
    }
  }
  return ATALLA_OK;
}

atalla_status run_segment_reduce(const Launch& l) {
  ATALLA_CHECK(check_segments(l));
  if (element_count(l.operand(0)) == 0) return ATALLA_OK;
  dispatch_dtype(l.operand(1).dtype, [&]<class S>(S) {
    if constexpr (std::is_floating_point_v<S> || kIsHalf<S>) {
      switch (static_cast<Kind>(l.desc.iparams[0])) {
        case Kind::Sum:
          return reduce_segments<S, Kind::Sum>(l);
        case Kind::Mean:
          return reduce_segments<S, Kind::Mean>(l);
        case Kind::Max:
          return reduce_segments<S, Kind::Max>(l);
        case Kind::Min:
          return reduce_segments<S, Kind::Min>(l);
        case Kind::Prod:
          return reduce_segments<S, Kind::Prod>(l);
      }
    }
  });
  return ATALLA_OK;
}

void cost_segment_reduce(const atalla_launch_desc& d, Cost& cost) {
  cost.bytes_read += distinct_bytes(d.operands[1]) + distinct_bytes(d.operands[2]);
  cost.bytes_written += distinct_bytes(d.operands[0]);
  const bool compares = d.iparams[0] == 2 || d.iparams[0] == 3;
  cost.vector_ops += vectors(element_count(d.operands[1])) * (compares ? 3 : 1) + vectors(element_count(d.operands[0]));
}

constexpr Kernel kKernels[] = {{"segment_reduce", 1, kFloatDtypes, run_segment_reduce, cost_segment_reduce}};

}  // namespace

KernelTable segment_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
