// SPDX-License-Identifier: BSD-3-Clause
//
// Loads and stores of tiles of rows, which are looked at once and copied row by row.
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

// Calls run(first element, address, active elements) for rows that lie in one piece, and element(element, address) for
// the active elements of others, until one of them returns false; rest(begin, end) for elements that are not active.
// Returns the address at which it stopped, or 0. (-1 stands for address 0.)
template <class T, class Run, class Element, class Rest>
int64_t for_each_part(const Rows<T>& tile, uint64_t size, bool in_runs, const Run& run, const Element& element,
                      const Rest& rest) {
  const int64_t n = tile.n_columns, active = tile.column_mask.prefix(n);
  const bool regular = in_runs && active > 0 && tile.columns != nullptr &&
                       Places<T>{tile.columns, 0, tile.scale, tile.columns_count_up}.is_run(0, active, size);
  for (int64_t r = 0; r < tile.n_rows; ++r) {
    const int64_t start = r * n;
    if (active == 0 || !tile.row_mask.active(r)) {
      rest(start, start + n);
      continue;
    }
    T first = 0, last = 0;
    if (regular && !__builtin_add_overflow(tile.row(r), tile.columns[0], &first) &&
        !__builtin_add_overflow(tile.row(r), tile.columns[active - 1], &last) && run(start, tile.at(first), active)) {
      rest(start + active, start + n);
      continue;
    }
    for (int64_t c = 0; c < n; ++c) {
      if (!tile.column_mask.active(c)) {
        rest(start + c, start + c + 1);
        continue;
      }
      const int64_t address = tile.at(r, c);
      if (!element(start + c, address)) return address == 0 ? -1 : address;
    }
  }
  return 0;
}

template <class T, class Offset>
int64_t load_rows(T* out, const Rows<Offset>& tile, const T* other, bool one_other, Memories& memories, int64_t& last) {
  const Ahead<false> ahead(last, tile.at(0, 0));
  return for_each_part(
      tile, sizeof(T), true,
      [&](int64_t i, int64_t address, int64_t n) {
        const unsigned char* from = memories.find(address, static_cast<uint64_t>(n) * sizeof(T));
        if (from == nullptr) return false;
        ahead.fetch(from, static_cast<size_t>(n) * sizeof(T));
        copy_row(out + i, from, static_cast<size_t>(n) * sizeof(T));
        return true;
      },
      [&](int64_t i, int64_t address) {
        const unsigned char* from = memories.find(address, sizeof(T));
        if (from == nullptr) return false;
        std::memcpy(out + i, from, sizeof(T));
        return true;
      },
      [&](int64_t begin, int64_t end) { fill_masked(out, begin, end, other, one_other); });
}

template <class T, class Offset>
int64_t store_rows(const T* in, bool one_value, const Rows<Offset>& tile, Memories& memories) {
  return for_each_part(
      tile, sizeof(T), !one_value,
      [&](int64_t i, int64_t address, int64_t n) {
        unsigned char* to = memories.find(address, static_cast<uint64_t>(n) * sizeof(T));
        if (to == nullptr) return false;
        copy_row(to, in + i, static_cast<size_t>(n) * sizeof(T));
        return true;
      },
      [&](int64_t i, int64_t address) {
        unsigned char* to = memories.find(address, sizeof(T));
        if (to == nullptr) return false;
        std::memcpy(to, &in[one_value ? 0 : i], sizeof(T));
        return true;
      },
      [](int64_t, int64_t) {});
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
