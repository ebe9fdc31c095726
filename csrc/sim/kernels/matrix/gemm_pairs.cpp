// SPDX-License-Identifier: BSD-3-Clause
//
// The micro-kernels and the packing of gemm_pairs.h.
#include "sim/kernels/matrix/gemm_pairs.h"

#include <utility>

// Names instructions that the build does not assume; pair_kernels_f32() asks the host for them.
#if defined(__AVX512F__) && !defined(__clang__)
#define ATALLA_PAIRS_F32 1
#pragma GCC target("avx512bf16,avx512vnni")
#endif
#if defined(__AVX2__)
#define ATALLA_PAIRS_U32 1
#endif

namespace atalla::sim::ATALLA_ISA {
namespace {

using Words = Vec<uint32_t>;

Words words(const void* p) {
  Words v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// As accumulate() of gemm_micro.cpp, with `step` for multiply-adds; a copy of the loop, since only a function for the
// same instructions can have the step in line. kBegun: the first row of b is what the sums begin with.
template <class T, int R, int V, bool kBegun, class Step>
[[gnu::always_inline]] inline void accumulate_pairs(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb,
                                                    T* tile, int64_t ldt, Step step) {
  constexpr int lanes = kLanes<T>;
  RegisterTile<T, R, V> acc;
  if constexpr (kBegun) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc.sums[r][v] = load_vector(b + v * lanes);
    }
    b += ldb;
  }
  RowCursor<T, R> row(a, lda);
  for (int64_t p = 0; p < k; ++p, b += ldb, row.next()) {
    Vec<T> column[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) column[v] = load_vector(b + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec<T> x = broadcast<T>(row(r));
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc.sums[r][v] = step(acc.sums[r][v], x, column[v]);
    }
  }
  acc.store(tile, ldt, nullptr, 0);
}

struct ByteDotAdd;

#if ATALLA_PAIRS_F32
struct BfloatDot {
  Vec<float> operator()(Vec<float> sum, Vec<float> x, Vec<float> y) const {
    return Vec<float>(_mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y));
  }
};

// WordDot in one instruction (AVX512_VNNI).
struct WordDotAdd {
  Words operator()(Words sum, Words x, Words y) const {
    return Words(_mm512_dpwssd_epi32(__m512i(sum), __m512i(x), __m512i(y)));
  }
};

// Four products of bytes, of which x's have no sign and y's have one, added to sums modulo 2^32.
struct ByteDotAdd {
  Words operator()(Words sum, Words x, Words y) const {
    return Words(_mm512_dpbusd_epi32(__m512i(sum), __m512i(x), __m512i(y)));
  }
};
#endif

#if ATALLA_PAIRS_U32
// Pairs of products of 16 bits, added to sums modulo 2^32: of bytes, a pair's sum fits.
struct WordDot {
  Words operator()(Words sum, Words x, Words y) const {
#if defined(__AVX512BW__)
    return sum + Words(_mm512_madd_epi16(__m512i(x), __m512i(y)));
#else
    return sum + Words(_mm256_madd_epi16(__m256i(x), __m256i(y)));
#endif
  }
};
#endif

template <class Dot, class T, int R, int V>
void pair_kernel(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* tile, int64_t ldt) {
  constexpr bool kBegun = std::is_same_v<Dot, ByteDotAdd>;
  accumulate_pairs<T, R, V, kBegun>(k, a, lda, b, ldb, tile, ldt, Dot{});
}

template <class Dot, class T, int V, int... R>
constexpr void fill_row(PairKernelTable<T>& table, std::integer_sequence<int, R...>) {
  ((table.entries[V - 1][R] = &pair_kernel<Dot, T, R + 1, V>), ...);
}

template <class Dot, class T>
constexpr PairKernelTable<T> make_table() {
  PairKernelTable<T> table{};
  fill_row<Dot, T, 1>(table, std::make_integer_sequence<int, kMaxRows>{});
  fill_row<Dot, T, 2>(table, std::make_integer_sequence<int, kMaxRows>{});
  table.values = std::is_same_v<Dot, ByteDotAdd> ? 4 : 2;
  return table;
}

// The upper and the lower half of a pair, of two values.
uint32_t pair_of(uint32_t first, uint32_t second, float) { return (first & 0xFFFF0000u) | second >> 16; }
uint32_t pair_of(uint32_t first, uint32_t second, uint32_t) { return first << 16 | (second & 0xFFFFu); }
Words pair_of(Words first, Words second, float) { return (first & 0xFFFF0000u) | second >> 16; }
Words pair_of(Words first, Words second, uint32_t) { return first << 16 | (second & 0xFFFFu); }

// Finds values that are not fit: BF16 numbers of exponents from `kLeast` to below `kMost` and zeros are. Products of
// two of them are multiples of 2^-126, and so are their sums.
class Fitness {
 public:
  // Of pairs, or of BF16 numbers as FP32. Twice the magnitude of each, above the least one; what is below wraps around,
  // except zeros.
  void see(Words bits) {
    const Halves twice = Halves(bits) << 1, above = twice - static_cast<uint16_t>(kLeast << 8);
    const Halves counted = twice == 0 ? Halves{} : above;
    most_ = counted > most_ ? counted : most_;
  }
  bool fits() const {
    uint16_t most = 0;
    for (int i = 0; i < 2 * kLanes<uint32_t>; ++i) most = most_[i] > most ? most_[i] : most;
    return most < (kMost - kLeast) << 8;
  }

 private:
  using Halves = Vec<uint16_t>;
  static constexpr uint32_t kLeast = 71, kMost = 190;
  Halves most_{};
};

template <class T>
bool pair_rows_of(T* data, int64_t rows, int64_t k, int64_t ld) {
  constexpr int64_t kPiece = 128;  // values that are read before the pairs are written over them
  Fitness fitness;
  for (int64_t r = 0; r < rows; ++r) {
    T* const row = data + r * ld;
    for (int64_t p = 0; p < k; p += kPiece) {
      alignas(64) uint32_t from[kPiece], to[kPiece / 2];
      const int64_t count = min_of(kPiece, k - p);
      if (count < kPiece) std::memset(from, 0, sizeof from);
      std::memcpy(from, row + p, static_cast<size_t>(count) * 4);
      if constexpr (std::is_same_v<T, float>) {
        for (int64_t i = 0; i < kPiece; i += kLanes<float>) fitness.see(words(from + i));
      }
      for (int64_t i = 0; i < kPiece / 2; ++i) to[i] = pair_of(from[2 * i], from[2 * i + 1], T{});
      std::memcpy(row + p / 2, to, static_cast<size_t>((count + 1) / 2) * 4);
    }
  }
  return fitness.fits();
}

template <class T>
bool pair_panel_of(T* data, int64_t k) {
  constexpr int64_t lanes = kLanes<T>, panel = kPanel<T>;
  Fitness fitness;
  for (int64_t p = 0; p < k; p += 2) {
    for (int64_t j = 0; j < panel; j += lanes) {
      const Words first = words(data + p * panel + j);
      const Words second = p + 1 < k ? words(data + (p + 1) * panel + j) : Words{};
      if constexpr (std::is_same_v<T, float>) fitness.see(first), fitness.see(second);
      const Words pair = pair_of(first, second, T{});
      std::memcpy(data + p / 2 * panel + j, &pair, sizeof pair);
    }
  }
  return fitness.fits();
}

Words turned(Words x) { return x << 16 | x >> 16; }

// Rows of BF16 whose k is contiguous.
bool rotate_rows(const MatrixView& a, int64_t rows, int64_t k, float* dst, int64_t ld) {
  constexpr int64_t values = 2 * kLanes<float>;  // of a vector
  Fitness fitness;
  for (int64_t r = 0; r < rows; ++r) {
    const char* from = a.at(r, 0);
    float* to = dst + r * ld;
    for (int64_t p = 0; p < k; p += values, from += 2 * values, to += kLanes<float>) {
      alignas(64) char rest[2 * values] = {};
      const bool whole = k - p >= values;
      if (!whole) std::memcpy(rest, from, static_cast<size_t>(k - p) * 2);
      const Words pairs = words(whole ? from : rest);
      fitness.see(pairs);
      const Words out = turned(pairs);
      std::memcpy(to, &out, whole ? sizeof out : static_cast<size_t>((k - p + 1) / 2) * 4);
    }
  }
  return fitness.fits();
}

bool rotate_panel(float* data, int64_t steps) {
  Fitness fitness;
  for (int64_t i = 0; i < steps * kPanel<float>; i += kLanes<float>) {
    const Words pairs = words(data + i), out = turned(pairs);
    fitness.see(pairs);
    std::memcpy(data + i, &out, sizeof out);
  }
  return fitness.fits();
}

// A panel of BF16 whose columns are contiguous.
bool join_rows(const MatrixView& b, int64_t k, float* dst) {
  using Halves = uint16_t __attribute__((vector_size(kVectorBytes / 2)));
  Fitness fitness;
  for (int64_t p = 0; p < k; p += 2) {
    for (int64_t j = 0; j < kPanel<float>; j += kLanes<float>) {
      Halves first, second{};
      std::memcpy(&first, b.at(p, j), sizeof first);
      if (p + 1 < k) std::memcpy(&second, b.at(p + 1, j), sizeof second);
      const Words out = __builtin_convertvector(first, Words) << 16 | __builtin_convertvector(second, Words);
      fitness.see(out);
      std::memcpy(dst + p / 2 * kPanel<float> + j, &out, sizeof out);
    }
  }
  return fitness.fits();
}

#if ATALLA_PAIRS_F32
constexpr uint32_t kSigns = 0x80808080u;

// The bytes [p, p + 4) of a row or column, `stride` apart; beyond `k` zeros.
uint32_t quad_at(const char* from, int64_t stride, int64_t p, int64_t k) {
  uint32_t quad = 0;
  for (int64_t i = 0; i < 4 && p + i < k; ++i)
    quad |= uint32_t{static_cast<unsigned char>(from[(p + i) * stride])} << 8 * i;
  return quad;
}

// Of `rows` rows of B, at most four, whose columns are contiguous.
ATALLA_INLINE Words quads_of_rows(const char* from, int64_t stride, int64_t rows) {
  Words quads{};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    if (i >= rows) break;
    __m128i row;
    std::memcpy(&row, from + i * stride, sizeof row);
    quads |= Words(_mm512_cvtepu8_epi32(row)) << 8 * i;  // GCC would convert byte by byte
  }
  return quads;
}
#endif

}  // namespace

const PairKernelTable<uint32_t>* quad_kernels_u32() {
#if ATALLA_PAIRS_F32
  static constexpr PairKernelTable<uint32_t> table = make_table<ByteDotAdd, uint32_t>();
  static const bool has = __builtin_cpu_supports("avx512vnni");
  return has ? &table : nullptr;
#else
  return nullptr;
#endif
}

void pack_quad_rows([[maybe_unused]] const MatrixView& a, [[maybe_unused]] int64_t rows, [[maybe_unused]] int64_t k,
                    [[maybe_unused]] uint32_t* dst, [[maybe_unused]] int64_t ld) {
#if ATALLA_PAIRS_F32
  for (int64_t r = 0; r < rows; ++r) {
    const char* from = a.at(r, 0);
    uint32_t* to = dst + r * ld;
    int64_t p = 0;
    for (; a.col_stride == 1 && p + kVectorBytes <= k; p += kVectorBytes) {
      const Words quads = words(from + p) ^ kSigns;
      std::memcpy(to + p / 4, &quads, sizeof quads);
    }
    for (; p < k; p += 4) to[p / 4] = quad_at(from, a.col_stride, p, k) ^ kSigns;
  }
#endif
}

bool pack_quad_panel([[maybe_unused]] const MatrixView& b, [[maybe_unused]] int64_t k, [[maybe_unused]] int64_t columns,
                     [[maybe_unused]] uint32_t* dst) {
#if ATALLA_PAIRS_F32
  constexpr int64_t lanes = kLanes<uint32_t>, panel = kPanel<uint32_t>;
  const int64_t steps = ceil_div(k, 4);
  if (steps + 1 > k) return false;
  uint32_t* const quads = dst + panel;
  const bool whole_rows = b.col_stride == 1 && columns == panel;
  const bool aligned = reinterpret_cast<uintptr_t>(b.data) % 4 == 0 && b.col_stride % 4 == 0 && k % 4 == 0;
  if (whole_rows) {
    for (int64_t q = 0; q < steps; ++q) {
      const char* from = b.at(4 * q, 0);
      for (int64_t j = 0; j < panel; j += lanes) {
        const bool whole = 4 * q + 4 <= k;
        const Words found =
            whole ? quads_of_rows(from + j, b.row_stride, 4) : quads_of_rows(from + j, b.row_stride, k % 4);
        std::memcpy(quads + q * panel + j, &found, sizeof found);
      }
    }
  } else if (b.row_stride == 1 && aligned) {  // quads lie in memory as they are needed
    const MatrixView view{b.data, ATALLA_I32, 1, b.col_stride / 4, 4};
    pack_matrix<uint32_t>(view, steps, columns, panel, quads, panel);
  } else {
    for (int64_t q = 0; q < steps; ++q) {
      for (int64_t j = 0; j < panel; ++j)
        quads[q * panel + j] = j < columns ? quad_at(b.at(0, j), b.row_stride, 4 * q, k) : 0;
    }
  }
  for (int64_t j = 0; j < panel; j += lanes) {
    Words sum{};
    for (int64_t q = 0; q < steps; ++q) sum = ByteDotAdd{}(sum, Words{} + 0x01010101u, words(quads + q * panel + j));
    const Words begin = Words{} - (sum << 7);
    std::memcpy(dst + j, &begin, sizeof begin);
  }
  return true;
#else
  return false;
#endif
}

const PairKernelTable<float>* pair_kernels_f32() {
#if ATALLA_PAIRS_F32
  static constexpr PairKernelTable<float> table = make_table<BfloatDot, float>();
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has ? &table : nullptr;
#else
  return nullptr;
#endif
}

const PairKernelTable<uint32_t>* pair_kernels_u32() {
#if ATALLA_PAIRS_U32
  static constexpr PairKernelTable<uint32_t> table = make_table<WordDot, uint32_t>();
#if ATALLA_PAIRS_F32
  static constexpr PairKernelTable<uint32_t> adding = make_table<WordDotAdd, uint32_t>();
  static const bool has = __builtin_cpu_supports("avx512vnni");
  if (has) return &adding;
#endif
  return &table;
#else
  return nullptr;
#endif
}

bool pack_pair_rows(const MatrixView& a, int64_t rows, int64_t k, float* dst, int64_t ld) {
  if (a.col_stride == 1 && k > 1) return rotate_rows(a, rows, k, dst, ld);
  pack_matrix<float>(a, rows, k, k, dst, ld);
  return pair_rows_of(dst, rows, k, ld);
}

bool pack_pair_rows(const MatrixView& a, int64_t rows, int64_t k, uint32_t* dst, int64_t ld) {
  pack_matrix<uint32_t>(a, rows, k, k, dst, ld);
  return pair_rows_of(dst, rows, k, ld);
}

bool pack_pair_panel(const MatrixView& b, int64_t k, int64_t columns, float* dst) {
  constexpr int64_t panel = kPanel<float>;
  if (b.col_stride == 1 && columns == panel) return join_rows(b, k, dst);
  const bool aligned = reinterpret_cast<uintptr_t>(b.data) % sizeof(float) == 0 && b.col_stride % 2 == 0;
  if (b.row_stride == 1 && aligned && k % 2 == 0) {  // pairs lie in memory as they are needed, turned
    const MatrixView pairs{b.data, ATALLA_F32, 1, b.col_stride / 2, 4};
    pack_matrix<float>(pairs, k / 2, columns, panel, dst, panel);
    return rotate_panel(dst, k / 2);
  }
  pack_matrix<float>(b, k, columns, panel, dst, panel);
  return pair_panel_of(dst, k);
}

bool pack_pair_panel(const MatrixView& b, int64_t k, int64_t columns, uint32_t* dst) {
  pack_matrix<uint32_t>(b, k, columns, kPanel<uint32_t>, dst, kPanel<uint32_t>);
  return pair_panel_of(dst, k);
}

}  // namespace atalla::sim::ATALLA_ISA
