// SPDX-License-Identifier: BSD-3-Clause
//
// The walk of loads and stores over a tile of rows, which are looked at once and copied row by row.
#pragma once

#include "sim/kernels/tile/tile_places.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Addresses of a tile of rows: those of row r and column c are base + (rows[r] + columns[c]) * scale. Either may be
// null, which stands for zeros. An element is active if both its row and its column are.
template <class T>
struct Rows {
  const T *rows, *columns;
  int64_t n_rows, n_columns;
  uint64_t base, scale;
  Mask row_mask, column_mask;
  bool columns_count_up;  // TileValue

  T row(int64_t r) const { return rows == nullptr ? T(0) : rows[r]; }
  T column(int64_t c) const { return columns == nullptr ? T(0) : columns[c]; }
  int64_t at(T offset) const {
    return static_cast<int64_t>(base + static_cast<uint64_t>(static_cast<int64_t>(offset)) * scale);
  }
  int64_t at(int64_t r, int64_t c) const {
    using U = std::make_unsigned_t<T>;
    return at(static_cast<T>(static_cast<U>(row(r)) + static_cast<U>(column(c))));
  }
};

// Moves the rows that lie in one piece as runs, and the active elements of others one by one, until the transfer fails.
// Returns the address at which it stopped, or 0. (-1 stands for address 0.)
template <class T, class Transfer>
int64_t move_rows(const Rows<T>& tile, const Transfer& transfer) {
  const int64_t n = tile.n_columns, active = tile.column_mask.prefix(n);
  const bool regular = transfer.in_runs() && active > 0 && tile.columns != nullptr &&
                       Places<T>{tile.columns, 0, tile.scale, tile.columns_count_up}.is_run(0, active, Transfer::kSize);
  for (int64_t r = 0; r < tile.n_rows; ++r) {
    const int64_t start = r * n;
    if (active == 0 || !tile.row_mask.active(r)) {
      transfer.rest(start, start + n);
      continue;
    }
    T first = 0, last = 0;
    if (regular && !__builtin_add_overflow(tile.row(r), tile.columns[0], &first) &&
        !__builtin_add_overflow(tile.row(r), tile.columns[active - 1], &last) &&
        transfer.run(start, tile.at(first), active)) {
      transfer.rest(start + active, start + n);
      continue;
    }
    for (int64_t c = 0; c < n; ++c) {
      if (!tile.column_mask.active(c)) {
        transfer.rest(start + c, start + c + 1);
        continue;
      }
      const int64_t address = tile.at(r, c);
      if (!transfer.element(start + c, address)) return address == 0 ? -1 : address;
    }
  }
  return 0;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
