// SPDX-License-Identifier: BSD-3-Clause
//
// What the sorting kernels compare: unsigned images of the elements that keep their order, each with its position.
//
// NaN is the largest value and all NaNs are equal, -0.0 equals 0.0. A key of at most 32 bits and its position share one
// 64-bit word, so that comparing words orders equal keys by position.
#pragma once

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr uint64_t kSortableDtypes = kRealDtypes;
constexpr int64_t kMaxSortLength = int64_t{1} << 32;

template <class S>
inline constexpr int kKeyBits = static_cast<int>(8 * sizeof(S));

// Moves the bits of a floating value into ascending order; `infinity` is the pattern of +inf. Without choices, which
// the compiler would turn into branches in short loops.
template <class U>
[[gnu::always_inline]] inline U float_key(U bits, U infinity) {
  constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  const U negative = static_cast<U>(-static_cast<U>(bits > kSign));  // -0.0 is not
  const U nan = static_cast<U>(-static_cast<U>(static_cast<U>(bits & static_cast<U>(~kSign)) > infinity));
  return static_cast<U>(static_cast<U>((bits | kSign) ^ negative) | nan);
}

template <class S>
[[gnu::always_inline]] inline auto order_key(S x) {
  if constexpr (std::is_same_v<S, BoolByte>) return static_cast<uint8_t>(x.byte != 0);
  else if constexpr (std::is_same_v<S, Half>) return float_key<uint16_t>(x.bits, 0x7c00);
  else if constexpr (std::is_same_v<S, BFloat16>) return float_key<uint16_t>(x.bits, 0x7f80);
  else if constexpr (std::is_same_v<S, float>) return float_key<uint32_t>(std::bit_cast<uint32_t>(x), 0x7f800000u);
  else if constexpr (std::is_same_v<S, double>)
    return float_key<uint64_t>(std::bit_cast<uint64_t>(x), uint64_t{0x7ff} << 52);
  else if constexpr (std::is_same_v<S, uint8_t>) return x;
  else {
    using U = std::make_unsigned_t<S>;
    return static_cast<U>(static_cast<U>(x) ^ static_cast<U>(U{1} << (8 * sizeof(U) - 1)));
  }
}

template <class S>
inline constexpr bool kHasNaN = std::is_floating_point_v<S> || kIsHalf<S>;

struct Narrow {
  uint64_t word;  // key, then position
  static Narrow make(uint64_t key, int64_t i) { return {key << 32 | static_cast<uint64_t>(i)}; }
  uint64_t key() const { return word >> 32; }
  int64_t index() const { return static_cast<int64_t>(word & 0xffffffffu); }
};
struct Wide {
  uint64_t word;
  uint32_t position;
  static Wide make(uint64_t key, int64_t i) { return {key, static_cast<uint32_t>(i)}; }
  uint64_t key() const { return word; }
  int64_t index() const { return position; }
};

// By key, then by position.
[[gnu::always_inline]] inline bool before(Narrow a, Narrow b) { return a.word < b.word; }
[[gnu::always_inline]] inline bool before(const Wide& a, const Wide& b) {
  return a.word < b.word || (a.word == b.word && a.position < b.position);
}

// A type of this namespace, so that the standard library's algorithms are instantiated for it here only.
struct ByKey {
  template <class E>
  bool operator()(const E& a, const E& b) const {
    return a.key() < b.key();
  }
};

template <class S>
using Entry = std::conditional_t<sizeof(S) == 8, Wide, Narrow>;

// The largest key: NaN's (and for a dtype without NaN just the largest value's).
template <class S>
inline constexpr uint64_t kLastKey = ~uint64_t{0} >> (64 - kKeyBits<S>);

// Entries of a row. Descending: the complement of the key ascends, and equal elements keep their order.
template <class S>
inline void load_entries(const S* x, int64_t stride, int64_t n, bool descending, Entry<S>* entries) {
  using U = decltype(order_key(S{}));
  const U flip = static_cast<U>(descending ? ~U{0} : U{0});
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) entries[i] = Entry<S>::make(static_cast<U>(order_key(x[i]) ^ flip), i);
  } else {
    for (int64_t i = 0; i < n; ++i) entries[i] = Entry<S>::make(static_cast<U>(order_key(x[i * stride]) ^ flip), i);
  }
}

// The keys alone, in the same order as those of entries.
template <class S, class U = decltype(order_key(S{}))>
[[gnu::always_inline]] inline void load_keys(const S* x, int64_t stride, int64_t n, bool descending, U* keys) {
  const U flip = static_cast<U>(descending ? ~U{0} : U{0});
  for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<U>(order_key(x[i * stride]) ^ flip);
}

// Calls f with a value of the DRAM type of a real dtype.
template <class F>
inline void dispatch_sortable(atalla_dtype dtype, F&& f) {
  dispatch_dtype(dtype, [&](auto tag) {
    if constexpr (!kIsComplex<decltype(tag)>) f(tag);
  });
}

// The rows of operands values, indices (either may be absent) and in along `dim`.
struct Rows {
  Dims<3> dims;
  int64_t size = 1, values_stride = 0, indices_stride = 0, in_stride = 0;

  Rows(const Launch& l, int64_t dim) {
    const atalla_operand &v = l.operand(SortOperands::kValues), &x = l.operand(SortOperands::kIndices),
                         &o = l.operand(SortOperands::kInput);
    for (int d = 0; d < o.ndim; ++d) {
      const int64_t vs = v.addr != 0 ? v.strides[d] : 0, xs = x.addr != 0 ? x.strides[d] : 0;
      if (d == dim) size = o.sizes[d], values_stride = vs, indices_stride = xs, in_stride = o.strides[d];
      else dims.add(o.sizes[d], vs, xs, o.strides[d]);
    }
  }
};

// That rows along a dimension are not too long, of a kernel with operands values, indices, input.
inline atalla_status check_rows(const Launch& l, int64_t along) {
  const atalla_operand& in = l.operand(SortOperands::kInput);
  const int dim = static_cast<int>(along);
  if (in.ndim > 0 && in.sizes[dim] >= kMaxSortLength) {
    return fail(l, ATALLA_ERR_UNSUPPORTED, "a row of {} elements, at most 2^32 - 1 are supported", in.sizes[dim]);
  }
  return ATALLA_OK;
}

inline atalla_status no_memory_for_keys(const Launch& l) {
  return fail(l, ATALLA_ERR_SYSTEM, "no host memory for the keys");
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
