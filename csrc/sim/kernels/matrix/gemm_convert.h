// SPDX-License-Identifier: BSD-3-Clause
//
// Conversion of strided element runs between the dtypes in DRAM and the arithmetic types of the matrix kernels:
// float (F16, BF16, F32), double (F64), uint32_t (BOOL and integers up to 32 bits, which wrap) and uint64_t (I64).
#pragma once

#include <type_traits>

#include "sim/abi/dtype.h"
#include "sim/kernels/base/convert_types.h"
#include "sim/kernels/matrix/gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {

inline int64_t element_size(atalla_dtype dtype) { return sim::dtype_size(dtype); }

// The dtype whose storage is the arithmetic type itself.
template <class T>
inline constexpr atalla_dtype kNativeDtype = std::is_same_v<T, float>      ? ATALLA_F32
                                             : std::is_same_v<T, double>   ? ATALLA_F64
                                             : std::is_same_v<T, uint32_t> ? ATALLA_I32
                                                                           : ATALLA_I64;

inline float bfloat_to_float(uint16_t b) { return __builtin_bit_cast(float, static_cast<uint32_t>(b) << 16); }

inline uint16_t float_to_bfloat(float f) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, f);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

struct HalfTag {
  uint16_t bits;
};
struct BfloatTag {
  uint16_t bits;
};

template <class T, class S>
[[gnu::always_inline]] inline T load_value(S s) {
  if constexpr (std::is_same_v<S, HalfTag>) {
    return load_value<T>(half_to_float(s.bits));
  } else if constexpr (std::is_same_v<S, BfloatTag>) {
    return load_value<T>(bfloat_to_float(s.bits));
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<S>) {
    return static_cast<T>(static_cast<int64_t>(s));
  } else {
    return static_cast<T>(s);  // a signed source is sign-extended into the wrapping type
  }
}

// dst[i] = src[i * stride], converted. Inlined so that the stride-1 loop is vectorised on its own.
template <class T, class S>
inline void load_run_of(const S* src, int64_t stride, int64_t count, T* dst) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) dst[i] = load_value<T>(src[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) dst[i] = load_value<T>(src[i * stride]);
  }
}

#if defined(__F16C__)
inline void load_run_of(const HalfTag* src, int64_t stride, int64_t count, float* dst) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + 8 <= count; i += 8) {
      _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i))));
    }
  }
  for (; i < count; ++i) dst[i] = half_to_float(src[i * stride].bits);
}
#endif

struct BoolTag {
  uint8_t byte;
};

template <class T>
inline void load_run_of(const BoolTag* src, int64_t stride, int64_t count, T* dst) {
  for (int64_t i = 0; i < count; ++i) dst[i] = static_cast<T>(src[i * stride].byte != 0);
}

// Out of line: inlined at each use, the ten loops would dominate the size and the compile time of the kernels.
template <class T>
[[gnu::noinline]] void load_run(const void* src, atalla_dtype dtype, int64_t stride, int64_t count, T* dst) {
  switch (dtype) {
    case ATALLA_BOOL:
      return load_run_of(static_cast<const BoolTag*>(src), stride, count, dst);
    case ATALLA_U8:
      return load_run_of(static_cast<const uint8_t*>(src), stride, count, dst);
    case ATALLA_I8:
      return load_run_of(static_cast<const int8_t*>(src), stride, count, dst);
    case ATALLA_I16:
      return load_run_of(static_cast<const int16_t*>(src), stride, count, dst);
    case ATALLA_I32:
      return load_run_of(static_cast<const int32_t*>(src), stride, count, dst);
    case ATALLA_I64:
      return load_run_of(static_cast<const int64_t*>(src), stride, count, dst);
    case ATALLA_F16:
      return load_run_of(static_cast<const HalfTag*>(src), stride, count, dst);
    case ATALLA_BF16:
      return load_run_of(static_cast<const BfloatTag*>(src), stride, count, dst);
    case ATALLA_F32:
      return load_run_of(static_cast<const float*>(src), stride, count, dst);
    default:
      return load_run_of(static_cast<const double*>(src), stride, count, dst);
  }
}

// dst[i * stride] = src[i], converted (floating point: round to nearest even, once).
template <class D, class T, class F>
[[gnu::always_inline]] inline void store_run_of(const T* src, int64_t count, void* dst, int64_t stride, F&& convert) {
  D* out = static_cast<D*>(dst);
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = convert(src[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i * stride] = convert(src[i]);
  }
}

template <class D, class T>
inline D store_value(T t) {
  if constexpr (std::is_floating_point_v<T> && std::is_integral_v<D>) {
    return static_cast<D>(static_cast<int64_t>(t));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<D>(static_cast<std::make_signed_t<T>>(t));  // the wrapping type holds a signed value
  } else {
    return static_cast<D>(t);
  }
}

template <class T>
[[gnu::noinline]] void store_run(const T* src, int64_t count, void* dst, atalla_dtype dtype, int64_t stride) {
  switch (dtype) {
    case ATALLA_BOOL:
      return store_run_of<uint8_t>(src, count, dst, stride, [](T t) { return uint8_t{t != T(0)}; });
    case ATALLA_U8:
      return store_run_of<uint8_t>(src, count, dst, stride, store_value<uint8_t, T>);
    case ATALLA_I8:
      return store_run_of<int8_t>(src, count, dst, stride, store_value<int8_t, T>);
    case ATALLA_I16:
      return store_run_of<int16_t>(src, count, dst, stride, store_value<int16_t, T>);
    case ATALLA_I32:
      return store_run_of<int32_t>(src, count, dst, stride, store_value<int32_t, T>);
    case ATALLA_I64:
      return store_run_of<int64_t>(src, count, dst, stride, store_value<int64_t, T>);
    case ATALLA_F16: {
      int64_t i = 0;
#if defined(__F16C__)
      if constexpr (std::is_same_v<T, float>) {
        if (stride == 1) {
          for (; i + 8 <= count; i += 8) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(static_cast<uint16_t*>(dst) + i),
                             _mm256_cvtps_ph(_mm256_loadu_ps(src + i), 0));
          }
        }
      }
#endif
      return store_run_of<uint16_t>(src + i, count - i, static_cast<uint16_t*>(dst) + i * stride, stride,
                                    [](T t) { return float_to_half(static_cast<float>(t)); });
    }
    case ATALLA_BF16:
      return store_run_of<uint16_t>(src, count, dst, stride,
                                    [](T t) { return float_to_bfloat(static_cast<float>(t)); });
    case ATALLA_F32:
      return store_run_of<float>(src, count, dst, stride, store_value<float, T>);
    default:
      return store_run_of<double>(src, count, dst, stride, store_value<double, T>);
  }
}

}  // namespace atalla::sim::ATALLA_ISA
