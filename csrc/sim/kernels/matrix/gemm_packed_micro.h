// SPDX-License-Identifier: BSD-3-Clause
//
// The micro-kernel of gemm_packed: that of gemm_micro.h, which also adds a row of addends (a bias, or the partial sums
// of earlier k) before it stores, and asks for the next panel a line at a time while it computes. Packed weights are
// read from DRAM in one stream; asked for in a burst, they would keep the core from computing.
#pragma once

#include <utility>

#include "sim/kernels/matrix/gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {

inline constexpr int64_t kStoredPanel = 32;  // columns of a panel in the file, whatever the instruction set

struct PackedTile {
  int64_t k;
  const float* a;
  int64_t lda;
  const float* b;  // rows of kStoredPanel
  float* out;
  int64_t ldo;
  const float* addend;  // null: none
  int64_t ld_addend;    // 0: one row for all
  const char* next;     // asked for at every step of k; any address will do
  int64_t next_step;    // bytes
};

namespace {

template <int R>
void packed_kernel(const PackedTile& t) {
  RegisterTile<float, R, kMaxVectors> tile;
  RowCursor<float, R> row(t.a, t.lda);
  const int64_t step = t.next_step;
  const float* b = t.b;
  const char* next = t.next;
  for (int64_t p = t.k; p > 0; --p, b += kStoredPanel, next += step, row.next()) {
    __builtin_prefetch(next, 0, 2);
    tile.add(b, row);
  }
  tile.store(t.out, t.ldo, t.addend, t.ld_addend);
}

using PackedKernel = void (*)(const PackedTile&);

template <int... R>
constexpr PackedKernel packed_kernel_of(std::integer_sequence<int, R...>, int64_t rows) {
  constexpr PackedKernel table[] = {&packed_kernel<R + 1>...};
  return table[rows - 1];
}

// For `rows` rows (1 .. kMaxRows) and a panel of kPanel<float> columns.
inline PackedKernel select_packed_kernel(int64_t rows) {
  return packed_kernel_of(std::make_integer_sequence<int, kMaxRows>{}, rows);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
