// SPDX-License-Identifier: BSD-3-Clause
#include "convert.h"

#include <cstring>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace atalla::sim::ATALLA_ISA {
namespace {

// Elements of a detour through float, for pairs in which one side is a 16-bit float.
constexpr int64_t kDetour = 256;

struct Bytes16 {
  uint64_t low, high;
};

void half_to_float_contiguous(float* dst, const Half* src, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    _mm512_storeu_ps(dst + i,
                     _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i))));
  }
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i))));
  }
#endif
  for (; i < n; ++i) dst[i] = half_to_float(src[i].bits);
}

void float_to_half_contiguous(Half* dst, const float* src, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(dst + i),
        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
#endif
  for (; i < n; ++i) dst[i].bits = float_to_half(src[i]);
}

template <class D, class S>
void contiguous(D* dst, const S* src, int64_t n) {
  if constexpr (std::is_same_v<D, S> && !std::is_same_v<D, BoolByte>) {
    std::memmove(dst, src, static_cast<size_t>(n) * sizeof(D));
  } else if constexpr (std::is_same_v<S, Half> && std::is_same_v<D, float>) {
    half_to_float_contiguous(dst, src, n);
  } else if constexpr (std::is_same_v<D, Half> && std::is_same_v<S, float>) {
    float_to_half_contiguous(dst, src, n);
  } else if constexpr (std::is_same_v<S, Half> || std::is_same_v<D, Half>) {
    float detour[kDetour];
    for (int64_t i = 0; i < n; i += kDetour) {
      const int64_t m = n - i < kDetour ? n - i : kDetour;
      contiguous(detour, src + i, m);
      contiguous(dst + i, static_cast<const float*>(detour), m);
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) dst[i] = convert<D>(src[i]);
  }
}

// One side runs along dimension 0 and the other along dimension 1, or neither runs along 0: goes by squares in a local
// buffer, so that each side is walked along its own run, a cache line at a time.
template <class D, class S>
void for_each_tile(D* dst, const int64_t* ds, const S* src, const int64_t* ss, const int64_t* sizes) {
  constexpr int64_t kTile = 16;
  D tile[kTile][kTile];  // [dimension 1][dimension 0]
  for (int64_t j0 = 0; j0 < sizes[1]; j0 += kTile) {
    const int64_t nj = sizes[1] - j0 < kTile ? sizes[1] - j0 : kTile;
    for (int64_t i0 = 0; i0 < sizes[0]; i0 += kTile) {
      const int64_t ni = sizes[0] - i0 < kTile ? sizes[0] - i0 : kTile;
      const S* s = src + i0 * ss[0] + j0 * ss[1];
      D* d = dst + i0 * ds[0] + j0 * ds[1];
      if (ni == kTile && nj == kTile && ss[1] == 1 && ds[0] == 1) {
        for (int64_t i = 0; i < kTile; ++i) {
          for (int64_t j = 0; j < kTile; ++j) tile[j][i] = convert<D>(s[i * ss[0] + j]);
        }
        for (int64_t j = 0; j < kTile; ++j) std::memcpy(d + j * ds[1], tile[j], sizeof tile[j]);
      } else if (ds[0] == 1) {
        for (int64_t i = 0; i < ni; ++i) {
          for (int64_t j = 0; j < nj; ++j) tile[j][i] = convert<D>(s[i * ss[0] + j * ss[1]]);
        }
        for (int64_t j = 0; j < nj; ++j) {
          for (int64_t i = 0; i < ni; ++i) d[i + j * ds[1]] = tile[j][i];
        }
      } else {
        for (int64_t i = 0; i < ni; ++i) {
          for (int64_t j = 0; j < nj; ++j) d[i * ds[0] + j * ds[1]] = convert<D>(s[i * ss[0] + j * ss[1]]);
        }
      }
    }
  }
}

template <class D, class S>
void block(void* dst_data, const int64_t* ds, const void* src_data, const int64_t* ss, const int64_t* sizes) {
  for (int64_t k = 0; k < sizes[2]; ++k) {
    D* dst = static_cast<D*>(dst_data) + k * ds[2];
    const S* src = static_cast<const S*>(src_data) + k * ss[2];
    if (ds[0] == 1 && ss[0] == 1) {
      for (int64_t j = 0; j < sizes[1]; ++j) contiguous(dst + j * ds[1], src + j * ss[1], sizes[0]);
    } else if (sizes[1] > 1 && (ss[1] == 1 || ds[1] == 1) && ss[0] != 1) {
      for_each_tile(dst, ds, src, ss, sizes);
    } else {
      for (int64_t j = 0; j < sizes[1]; ++j) {
        D* d = dst + j * ds[1];
        const S* s = src + j * ss[1];
        if (ds[0] == 1) {
          for (int64_t i = 0; i < sizes[0]; ++i) d[i] = convert<D>(s[i * ss[0]]);
        } else {
          for (int64_t i = 0; i < sizes[0]; ++i) d[i * ds[0]] = convert<D>(s[i * ss[0]]);
        }
      }
    }
  }
}

template <class D>
void fill(void* dst_data, const void* value, int64_t n) {
  D* dst = static_cast<D*>(dst_data);
  D v;
  std::memcpy(&v, value, sizeof v);
  for (int64_t i = 0; i < n; ++i) dst[i] = v;
}

template <class D>
ConvertBlock convert_to(int src) {
  static constexpr ConvertBlock row[kNumDtypes] = {
#define ATALLA_ENTRY(code, type, index) block<D, type>,
      ATALLA_FORALL_DTYPES(ATALLA_ENTRY)
#undef ATALLA_ENTRY
  };
  return row[src];
}

}  // namespace

ConvertBlock copy_block(size_t element_size) {
  switch (element_size) {
    case 1:
      return block<uint8_t, uint8_t>;
    case 2:
      return block<uint16_t, uint16_t>;
    case 4:
      return block<uint32_t, uint32_t>;
    case 8:
      return block<uint64_t, uint64_t>;
    default:
      return block<Bytes16, Bytes16>;
  }
}

ConvertBlock convert_block(atalla_dtype dst, atalla_dtype src) {
  if (dst == src && dst != ATALLA_BOOL) return copy_block(dtype_size(dst));
  const int s = kDtypeTraits[src].index;
  switch (dst) {
#define ATALLA_CASE(code, type, index) \
  case code:                           \
    return convert_to<type>(s);
    ATALLA_FORALL_DTYPES(ATALLA_CASE)
#undef ATALLA_CASE
    default:
      return nullptr;
  }
}

void fill_contiguous(void* dst, atalla_dtype dst_dtype, const void* src, atalla_dtype src_dtype, int64_t n) {
  alignas(16) unsigned char value[16];
  const int64_t one[kBlockDims] = {1, 1, 1};
  if (dst_dtype == src_dtype && dst_dtype != ATALLA_BOOL) {
    std::memcpy(value, src, dtype_size(dst_dtype));
  } else {
    convert_block(dst_dtype, src_dtype)(value, one, src, one, one);
  }
  switch (dtype_size(dst_dtype)) {
    case 1:
      std::memset(dst, value[0], static_cast<size_t>(n));
      return;
    case 2:
      fill<uint16_t>(dst, value, n);
      return;
    case 4:
      fill<uint32_t>(dst, value, n);
      return;
    case 8:
      fill<uint64_t>(dst, value, n);
      return;
    default:
      fill<Bytes16>(dst, value, n);
      return;
  }
}

}  // namespace atalla::sim::ATALLA_ISA
