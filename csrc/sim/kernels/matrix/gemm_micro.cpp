// SPDX-License-Identifier: BSD-3-Clause
//
// The micro-kernels of gemm_micro.h, instantiated for every arithmetic type and tile shape.
#include "sim/kernels/matrix/gemm_micro.h"

#include <utility>

namespace atalla::sim::ATALLA_ISA {
namespace {

// `row_of_b` gives the address of row p of B.
template <class T, int R, int V, class RowOfB>
[[gnu::always_inline]] inline void accumulate(int64_t k, const T* a, int64_t lda, RowOfB row_of_b, T* tile,
                                              int64_t ldt) {
  RegisterTile<T, R, V> sums;
  RowCursor<T, R> row(a, lda);
  for (int64_t p = 0; p < k; ++p, row.next()) sums.add(row_of_b(p), row);
  sums.store(tile, ldt, nullptr, 0);
}

template <class T, int R, int V>
void micro_kernel(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* tile, int64_t ldt) {
  accumulate<T, R, V>(
      k, a, lda,
      [&](int64_t) {
        const T* row = b;
        b += ldb;
        return row;
      },
      tile, ldt);
}

template <class T, int R, int V>
void shifted_kernel(int64_t k, const T* a, int64_t lda, const T* b, const int32_t* rows, T* tile, int64_t ldt) {
  accumulate<T, R, V>(k, a, lda, [&](int64_t p) { return b + rows[p]; }, tile, ldt);
}

template <class T, int V, int... R>
constexpr void fill_row(MicroKernelTable<T>& table, std::integer_sequence<int, R...>) {
  ((table.entries[V - 1][R] = &micro_kernel<T, R + 1, V>), ...);
  ((table.shifted[V - 1][R] = &shifted_kernel<T, R + 1, V>), ...);
}

template <class T>
constexpr MicroKernelTable<T> make_table() {
  MicroKernelTable<T> table{};
  fill_row<T, 1>(table, std::make_integer_sequence<int, kMaxRows>{});
  fill_row<T, 2>(table, std::make_integer_sequence<int, kMaxRows>{});
  return table;
}

}  // namespace

constexpr MicroKernelTable<float> kMicroKernelsF32 = make_table<float>();
constexpr MicroKernelTable<double> kMicroKernelsF64 = make_table<double>();
constexpr MicroKernelTable<uint32_t> kMicroKernelsU32 = make_table<uint32_t>();
constexpr MicroKernelTable<uint64_t> kMicroKernelsU64 = make_table<uint64_t>();

}  // namespace atalla::sim::ATALLA_ISA
