// SPDX-License-Identifier: BSD-3-Clause
//
// Strided runs of elements between the dtypes in DRAM and the arithmetic types of kernels: float, double, int64_t,
// Complex, and the integers of matrix products, which wrap: uint32_t (BOOL and integers up to 32 bits) and uint64_t.
// Everything has internal linkage, as kernel.h asks.
#pragma once

#include <cstring>
#include <type_traits>

#include "sim/kernels/base/convert.h"
#include "sim/kernels/base/kernel.h"

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr uint64_t dtype_bit(atalla_dtype d) { return uint64_t{1} << d; }
constexpr uint64_t kFloatDtypes =
    dtype_bit(ATALLA_F16) | dtype_bit(ATALLA_BF16) | dtype_bit(ATALLA_F32) | dtype_bit(ATALLA_F64);
constexpr uint64_t kWideFloatDtypes = dtype_bit(ATALLA_F32) | dtype_bit(ATALLA_F64);
constexpr uint64_t kIntegerDtypes = dtype_bit(ATALLA_U8) | dtype_bit(ATALLA_I8) | dtype_bit(ATALLA_I16) |
                                    dtype_bit(ATALLA_I32) | dtype_bit(ATALLA_I64) | dtype_bit(ATALLA_BOOL);
constexpr uint64_t kComplexDtypes = dtype_bit(ATALLA_C64) | dtype_bit(ATALLA_C128);
constexpr uint64_t kRealDtypes = kFloatDtypes | kIntegerDtypes;
constexpr uint64_t kAllDtypes = kRealDtypes | kComplexDtypes;

inline bool is_complex(atalla_dtype d) { return d < 64 && (dtype_bit(d) & kComplexDtypes) != 0; }

// Calls f with a value of the DRAM type of `dtype`; false when the code is not a dtype.
template <class F>
inline bool dispatch_dtype(atalla_dtype dtype, F&& f) {
#define ATALLA_CASE(code, type, index) \
  case code:                           \
    f(type{});                         \
    return true;
  switch (dtype) { ATALLA_FORALL_DTYPES(ATALLA_CASE) }
#undef ATALLA_CASE
  return false;
}

// dst[i] = src[i * stride], converted. Out of line: inlined at each use, the twelve loops would be most of a kernel.
template <class T>
[[gnu::noinline]] void load_run(const void* src, atalla_dtype dtype, int64_t stride, int64_t count, T* dst) {
  dispatch_dtype(dtype, [&]<class S>(S) {
    const S* s = static_cast<const S*>(src);
    int64_t i = 0;
#if defined(__F16C__)
    if constexpr (std::is_same_v<S, Half> && std::is_same_v<T, float>) {
      for (; stride == 1 && i + 8 <= count; i += 8) {
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i))));
      }
    }
#endif
    if (stride == 1) {
      for (; i < count; ++i) dst[i] = convert<T>(s[i]);
    } else {
      for (; i < count; ++i) dst[i] = convert<T>(s[i * stride]);
    }
  });
}

// dst[i * stride] = src[i], converted and rounded once.
template <class T>
[[gnu::noinline]] void store_run(const T* src, int64_t count, void* dst, atalla_dtype dtype, int64_t stride) {
  dispatch_dtype(dtype, [&]<class D>(D) {
    D* d = static_cast<D*>(dst);
    int64_t i = 0;
#if defined(__F16C__)
    if constexpr (std::is_same_v<D, Half> && std::is_same_v<T, float>) {
      for (; stride == 1 && i + 8 <= count; i += 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(d + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
      }
    }
#endif
    if constexpr (std::is_same_v<D, BFloat16> && std::is_same_v<T, float>) {
      if (stride == 1) {
        round_to_bfloat16(d, src, count);
        return;
      }
    }
    if (stride == 1) {
      for (; i < count; ++i) d[i] = convert<D>(src[i]);
    } else {
      for (; i < count; ++i) d[i * stride] = convert<D>(src[i]);
    }
  });
}

// Rounds loaded values to the compute dtype; needed only for operands that are of another dtype.
template <class T>
inline void round_to(atalla_dtype compute, T* x, int64_t count) {
  dispatch_dtype(compute, [&]<class C>(C) {
    if constexpr (!std::is_same_v<C, T>) {
      for (int64_t i = 0; i < count; ++i) x[i] = convert<T>(convert<C>(x[i]));
    }
  });
}

// The dtype whose elements are of an arithmetic type.
template <class T>
constexpr atalla_dtype kNativeOf = std::is_floating_point_v<T> ? (sizeof(T) == 4 ? ATALLA_F32 : ATALLA_F64)
                                                               : (sizeof(T) == 4 ? ATALLA_I32 : ATALLA_I64);

// load_run, then rounded to the compute dtype where the operand's differs.
template <class T>
inline void load_as(const void* src, atalla_dtype dtype, atalla_dtype compute, int64_t stride, int64_t count, T* dst) {
  load_run(src, dtype, stride, count, dst);
  if (dtype != compute) round_to(compute, dst, count);
}

// Element `i` (in elements) of a floating-point operand.
template <class T>
ATALLA_INLINE T element_of(const void* p, atalla_dtype dtype, int64_t i) {
  switch (dtype) {
    case ATALLA_F16:
      return static_cast<T>(half_to_float(static_cast<const uint16_t*>(p)[i]));
    case ATALLA_BF16:
      return static_cast<T>(bfloat16_to_float(static_cast<const uint16_t*>(p)[i]));
    case ATALLA_F32:
      return static_cast<T>(static_cast<const float*>(p)[i]);
    default:
      return static_cast<T>(static_cast<const double*>(p)[i]);
  }
}

inline char* at(void* base, atalla_dtype dtype, int64_t elements) {
  return static_cast<char*>(base) + elements * dtype_size(dtype);
}
inline const char* at(const void* base, atalla_dtype dtype, int64_t elements) {
  return static_cast<const char*>(base) + elements * dtype_size(dtype);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
