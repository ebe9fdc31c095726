// SPDX-License-Identifier: BSD-3-Clause
#include "sim/kernels/base/convert.h"

#include <cstring>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace atalla::sim::ATALLA_ISA {
namespace {

// Elements of a detour through float, for pairs in which one side is a 16-bit float.
constexpr int64_t kDetour = 256;
// Side of the squares by which a block is transposed, elements.
constexpr int64_t kTile = 16;

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

void round_by_integers(BFloat16* dst, const float* src, int64_t n) {
  auto* bits = reinterpret_cast<uint16_t*>(dst);  // plain integers, so that the loop is vectorised
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) bits[i] = float_to_bfloat16(src[i]);
}

#if defined(__AVX512F__)
// The instruction takes denormal numbers for zero and keeps payloads of NaNs: vectors with either go by integers.
[[gnu::target("avx512bf16")]] void round_by_instruction(BFloat16* dst, const float* src, int64_t n) {
  constexpr int kNaNOrDenormal = 0x01 | 0x80 | 0x20;
  constexpr int64_t kStep = 32;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    const __m512 low = _mm512_loadu_ps(src + i), high = _mm512_loadu_ps(src + i + kStep / 2);
    const __mmask16 special =
        _mm512_fpclass_ps_mask(low, kNaNOrDenormal) | _mm512_fpclass_ps_mask(high, kNaNOrDenormal);
    if (special != 0) [[unlikely]] {
      round_by_integers(dst + i, src + i, kStep);
    } else {
      const __m512bh rounded = _mm512_cvtne2ps_pbh(high, low);
      std::memcpy(dst + i, &rounded, sizeof rounded);
    }
  }
  round_by_integers(dst + i, src + i, n - i);
}
#endif

template <class D, class S>
void contiguous(D* dst, const S* src, int64_t n) {
  if constexpr (std::is_same_v<D, S> && !std::is_same_v<D, BoolByte>) {
    std::memmove(dst, src, static_cast<size_t>(n) * sizeof(D));
  } else if constexpr (std::is_same_v<S, Half> && std::is_same_v<D, float>) {
    half_to_float_contiguous(dst, src, n);
  } else if constexpr (std::is_same_v<D, Half> && std::is_same_v<S, float>) {
    float_to_half_contiguous(dst, src, n);
  } else if constexpr (std::is_same_v<D, BFloat16> && std::is_same_v<S, float>) {
    round_to_bfloat16(dst, src, n);
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
template <class E>
void copy_tiles(E* dst, const int64_t* ds, const E* src, const int64_t* ss, const int64_t* sizes) {
  E tile[kTile][kTile];  // [dimension 1][dimension 0]
  for (int64_t j0 = 0; j0 < sizes[1]; j0 += kTile) {
    const int64_t nj = sizes[1] - j0 < kTile ? sizes[1] - j0 : kTile;
    for (int64_t i0 = 0; i0 < sizes[0]; i0 += kTile) {
      const int64_t ni = sizes[0] - i0 < kTile ? sizes[0] - i0 : kTile;
      const E* s = src + i0 * ss[0] + j0 * ss[1];
      E* d = dst + i0 * ds[0] + j0 * ds[1];
      if (ni == kTile && nj == kTile && ss[1] == 1 && ds[0] == 1) {
        for (int64_t i = 0; i < kTile; ++i) {
          for (int64_t j = 0; j < kTile; ++j) tile[j][i] = s[i * ss[0] + j];
        }
        for (int64_t j = 0; j < kTile; ++j) std::memcpy(d + j * ds[1], tile[j], sizeof tile[j]);
      } else if (ds[0] == 1) {
        for (int64_t i = 0; i < ni; ++i) {
          for (int64_t j = 0; j < nj; ++j) tile[j][i] = s[i * ss[0] + j * ss[1]];
        }
        for (int64_t j = 0; j < nj; ++j) {
          for (int64_t i = 0; i < ni; ++i) d[i + j * ds[1]] = tile[j][i];
        }
      } else {
        for (int64_t i = 0; i < ni; ++i) {
          for (int64_t j = 0; j < nj; ++j) d[i * ds[0] + j * ds[1]] = s[i * ss[0] + j * ss[1]];
        }
      }
    }
  }
}

bool transposes(const int64_t* ds, const int64_t* ss, const int64_t* sizes) {
  return sizes[1] > 1 && (ss[1] == 1 || ds[1] == 1) && ss[0] != 1;
}

// A copy of bits.
template <class E>
void copy_elements(void* dst_data, const int64_t* ds, const void* src_data, const int64_t* ss, const int64_t* sizes) {
  for (int64_t k = 0; k < sizes[2]; ++k) {
    E* dst = static_cast<E*>(dst_data) + k * ds[2];
    const E* src = static_cast<const E*>(src_data) + k * ss[2];
    if (ds[0] == 1 && ss[0] == 1) {
      for (int64_t j = 0; j < sizes[1]; ++j) contiguous(dst + j * ds[1], src + j * ss[1], sizes[0]);
    } else if (transposes(ds, ss, sizes)) {
      copy_tiles(dst, ds, src, ss, sizes);
    } else {
      for (int64_t j = 0; j < sizes[1]; ++j) {
        E* d = dst + j * ds[1];
        const E* s = src + j * ss[1];
        if (ds[0] == 1) {
          for (int64_t i = 0; i < sizes[0]; ++i) d[i] = s[i * ss[0]];
        } else {
          for (int64_t i = 0; i < sizes[0]; ++i) d[i * ds[0]] = s[i * ss[0]];
        }
      }
    }
  }
}

// n contiguous elements, converted.
using ConvertRun = void (*)(void* dst, const void* src, int64_t n);

struct Conversion {
  ConvertRun run;
  int64_t dst_size, src_size;  // bytes an element
};

constexpr int64_t kBuffered = kTile * kTile;  // elements
struct alignas(64) Buffer {
  unsigned char bytes[kBuffered * sizeof(Bytes16)];
};

// A rectangle of at most kBuffered elements: brought together in dst's order, converted, and put in place.
void convert_rectangle(const Conversion& c, unsigned char* dst, const int64_t* ds, const unsigned char* src,
                       const int64_t* ss, int64_t n0, int64_t n1) {
  Buffer gathered, converted;
  const int64_t dense[kBlockDims] = {1, n0, 0}, sizes[kBlockDims] = {n0, n1, 1};
  copy_block(static_cast<size_t>(c.src_size))(gathered.bytes, dense, src, ss, sizes);
  if (ds[0] == 1 && (n1 == 1 || ds[1] == n0)) return c.run(dst, gathered.bytes, n0 * n1);
  c.run(converted.bytes, gathered.bytes, n0 * n1);
  copy_block(static_cast<size_t>(c.dst_size))(dst, ds, converted.bytes, dense, sizes);
}

// One function for all pairs of dtypes: a pair has a loop of its own only for contiguous elements, and everything else
// is copies of bits around it. (A loop a layout for each of the 144 pairs takes minutes to compile.)
void convert_strided(const Conversion& c, void* dst_data, const int64_t* ds, const void* src_data, const int64_t* ss,
                     const int64_t* sizes) {
  const bool tiles = transposes(ds, ss, sizes);
  const int64_t n0 = tiles ? kTile : kBuffered, n1 = tiles ? kTile : 1;
  for (int64_t k = 0; k < sizes[2]; ++k) {
    auto* dst = static_cast<unsigned char*>(dst_data) + k * ds[2] * c.dst_size;
    const auto* src = static_cast<const unsigned char*>(src_data) + k * ss[2] * c.src_size;
    for (int64_t j = 0; j < sizes[1]; j += n1) {
      unsigned char* d = dst + j * ds[1] * c.dst_size;
      const unsigned char* s = src + j * ss[1] * c.src_size;
      if (ds[0] == 1 && ss[0] == 1) {
        c.run(d, s, sizes[0]);
        continue;
      }
      const int64_t rows = sizes[1] - j < n1 ? sizes[1] - j : n1;
      for (int64_t i = 0; i < sizes[0]; i += n0) {
        const int64_t columns = sizes[0] - i < n0 ? sizes[0] - i : n0;
        convert_rectangle(c, d + i * ds[0] * c.dst_size, ds, s + i * ss[0] * c.src_size, ss, columns, rows);
      }
    }
  }
}

template <class D, class S>
void convert_run(void* dst, const void* src, int64_t n) {
  contiguous(static_cast<D*>(dst), static_cast<const S*>(src), n);
}

template <class D, class S>
void block(void* dst, const int64_t* ds, const void* src, const int64_t* ss, const int64_t* sizes) {
  convert_strided({convert_run<D, S>, sizeof(D), sizeof(S)}, dst, ds, src, ss, sizes);
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

void round_to_bfloat16(BFloat16* dst, const float* src, int64_t n) {
#if defined(__AVX512F__)
  static const bool has_instruction = __builtin_cpu_supports("avx512bf16");
  if (has_instruction) return round_by_instruction(dst, src, n);
#endif
  round_by_integers(dst, src, n);
}

ConvertBlock copy_block(size_t element_size) {
  switch (element_size) {
    case 1:
      return copy_elements<uint8_t>;
    case 2:
      return copy_elements<uint16_t>;
    case 4:
      return copy_elements<uint32_t>;
    case 8:
      return copy_elements<uint64_t>;
    default:
      return copy_elements<Bytes16>;
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
