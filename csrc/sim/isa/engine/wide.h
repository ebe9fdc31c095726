// SPDX-License-Identifier: BSD-3-Clause
//
// Sixteen lanes of 32 bits, as vectors of the host's own width: GCC takes comparisons and sums of wider ones apart lane
// by lane.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi"
#if defined(__GNUC__) && !defined(__clang__)  // GCC 12 says it of its own AVX-512 headers (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace atalla::sim::isa::ATALLA_ISA {
namespace {

#define ATALLA_INLINE [[gnu::always_inline]] inline

#if defined(__AVX512F__)
constexpr int kHostBytes = 64;
#elif defined(__AVX2__)
constexpr int kHostBytes = 32;
#else
constexpr int kHostBytes = 16;
#endif
constexpr int kWideParts = 64 / kHostBytes;
constexpr int kPartLanes = kHostBytes / 4;

// A vector of the host. GCC drops may_alias where the type of the lanes depends on a template's parameter.
template <class T>
struct HostVector;
template <>
struct HostVector<float> {
  using Type = float __attribute__((vector_size(kHostBytes), may_alias));
};
template <>
struct HostVector<uint32_t> {
  using Type = uint32_t __attribute__((vector_size(kHostBytes), may_alias));
};
template <>
struct HostVector<int32_t> {
  using Type = int32_t __attribute__((vector_size(kHostBytes), may_alias));
};

template <class T>
struct Wide {
  using Part = typename HostVector<T>::Type;
  Part part[kWideParts];
};
using F = Wide<float>;
using U = Wide<uint32_t>;
using S = Wide<int32_t>;

// The function of each part.
template <class R, class Function, class... Operands>
ATALLA_INLINE R each(Function function, const Operands&... operands) {
  R result;
#pragma GCC unroll 4
  for (int i = 0; i < kWideParts; ++i) {
    result.part[i] = reinterpret_cast<typename R::Part>(function(operands.part[i]...));
  }
  return result;
}

// Zero plus x would be an addition, since it is not x for -0.
template <class T>
ATALLA_INLINE typename Wide<T>::Part host_every(T x) {
#if defined(__AVX512F__)
  return typename Wide<T>::Part{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif defined(__AVX2__)
  return typename Wide<T>::Part{x, x, x, x, x, x, x, x};
#else
  return typename Wide<T>::Part{x, x, x, x};
#endif
}
template <class T>
ATALLA_INLINE Wide<T> every(T x) {
  Wide<T> result;
#pragma GCC unroll 4
  for (int i = 0; i < kWideParts; ++i) result.part[i] = host_every(x);
  return result;
}

// Of two vectors, or of a vector and a number.
#define ATALLA_WIDE_OPERATOR(symbol, Result)                                          \
  template <class T>                                                                  \
  ATALLA_INLINE Result operator symbol(const Wide<T>& a, const Wide<T>& b) {          \
    return each<Result>([](auto x, auto y) { return x symbol y; }, a, b);             \
  }                                                                                   \
  template <class T>                                                                  \
  ATALLA_INLINE Result operator symbol(const Wide<T>& a, std::type_identity_t<T> b) { \
    return a symbol every<T>(b);                                                      \
  }
ATALLA_WIDE_OPERATOR(+, Wide<T>)
ATALLA_WIDE_OPERATOR(-, Wide<T>)
ATALLA_WIDE_OPERATOR(*, Wide<T>)
ATALLA_WIDE_OPERATOR(&, Wide<T>)
ATALLA_WIDE_OPERATOR(|, Wide<T>)
ATALLA_WIDE_OPERATOR(^, Wide<T>)
ATALLA_WIDE_OPERATOR(>, S)  // all bits of the lanes for which it holds
ATALLA_WIDE_OPERATOR(<, S)
ATALLA_WIDE_OPERATOR(==, S)
ATALLA_WIDE_OPERATOR(!=, S)
#undef ATALLA_WIDE_OPERATOR

template <class T>
ATALLA_INLINE Wide<T> operator~(const Wide<T>& a) {
  return each<Wide<T>>([](auto x) { return ~x; }, a);
}
template <class T>
ATALLA_INLINE Wide<T> operator>>(const Wide<T>& a, int count) {
  return each<Wide<T>>([=](auto x) { return x >> count; }, a);
}
template <class T>
ATALLA_INLINE Wide<T> operator<<(const Wide<T>& a, int count) {
  return each<Wide<T>>([=](auto x) { return x << count; }, a);
}

// Part by part: GCC copies the whole by smaller pieces, for which later loads would wait.
template <class T>
ATALLA_INLINE Wide<T> load(const T* p) {
  Wide<T> result;
#pragma GCC unroll 4
  for (int i = 0; i < kWideParts; ++i)
    result.part[i] = *reinterpret_cast<const typename Wide<T>::Part*>(p + i * kPartLanes);
  return result;
}
template <class T>
ATALLA_INLINE void store(T* p, const Wide<T>& value) {
#pragma GCC unroll 4
  for (int i = 0; i < kWideParts; ++i) *reinterpret_cast<typename Wide<T>::Part*>(p + i * kPartLanes) = value.part[i];
}
ATALLA_INLINE U bits(const F& x) {
  return each<U>([](auto part) { return part; }, x);
}
ATALLA_INLINE F floats(const U& x) {
  return each<F>([](auto part) { return part; }, x);
}

// `yes` in the lanes for which a comparison holds, `no` in the others.
ATALLA_INLINE F choose(const S& holds, const F& yes, const F& no) {
  return each<F>([](auto h, auto a, auto b) { return h != 0 ? a : b; }, holds, yes, no);
}

// A bit for each lane for which a comparison holds.
ATALLA_INLINE uint32_t lanes_of(const S& holds) {
  uint32_t found = 0;
#pragma GCC unroll 4
  for (int i = 0; i < kWideParts; ++i) {
#if defined(__AVX512F__)
    const uint32_t part = _mm512_movepi32_mask(reinterpret_cast<__m512i>(holds.part[i]));
#elif defined(__AVX2__)
    const auto part = static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(holds.part[i])));
#elif defined(__SSE2__)
    const auto part = static_cast<uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(holds.part[i])));
#else
    uint32_t part = 0;
    for (int k = 0; k < kPartLanes; ++k) part |= static_cast<uint32_t>(holds.part[i][k] & 1) << k;
#endif
    found |= part << (i * kPartLanes);
  }
  return found;
}

// Sixteen numbers of 16 bits, at any address.
using Halves = uint16_t __attribute__((vector_size(kHostBytes / 2), aligned(2), may_alias));
ATALLA_INLINE U widen(const uint16_t* from) {
  U result;
#pragma GCC unroll 4
  for (int i = 0; i < kWideParts; ++i)
    result.part[i] = __builtin_convertvector(*reinterpret_cast<const Halves*>(from + i * kPartLanes), U::Part);
  return result;
}
ATALLA_INLINE void store_halves(uint16_t* to, const U& x) {
#pragma GCC unroll 4
  for (int i = 0; i < kWideParts; ++i)
    *reinterpret_cast<Halves*>(to + i * kPartLanes) = __builtin_convertvector(x.part[i], Halves);
}

}  // namespace
}  // namespace atalla::sim::isa::ATALLA_ISA
