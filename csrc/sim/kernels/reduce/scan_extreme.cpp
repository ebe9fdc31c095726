// SPDX-License-Identifier: BSD-3-Clause
//
// cummax, cummin: the extreme element so far and its position; the last of equal ones, and a NaN from the first on.
//
// Instruction sets: up to avx2
#include "sim/kernels/sort/sort_keys.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = CummaxOperands;

constexpr int64_t kColumns = 64;

// A key that is at least as large as the one before when the element takes its place. For cummin the order is turned
// round, but for NaN, which wins either way.
template <class S, bool kMax>
[[gnu::always_inline]] inline auto extreme_key(S x) {
  using U = decltype(order_key(x));
  const U key = order_key(x);
  if constexpr (kMax) return key;
  else return static_cast<U>(static_cast<U>(~key) - (kHasNaN<S> ? 1 : 0));  // ~NaN is 0, and becomes the largest
}

// `columns` adjacent rows at once: each operand's columns are `*_column` elements apart.
template <class S, bool kMax>
void scan_columns(const Rows& rows, const S* in, S* values, int64_t* indices, int64_t in_column, int64_t values_column,
                  int64_t indices_column, int64_t columns) {
  using U = decltype(order_key(S{}));
  U best[kColumns];
  S value[kColumns];
  int64_t place[kColumns];
  for (int64_t i = 0; i < rows.size; ++i) {
    for (int64_t c = 0; c < columns; ++c) {
      const S x = in[i * rows.in_stride + c * in_column];
      const U key = extreme_key<S, kMax>(x);
      if (i == 0 || key >= best[c]) best[c] = key, value[c] = x, place[c] = i;
      values[i * rows.values_stride + c * values_column] = value[c];
      indices[i * rows.indices_stride + c * indices_column] = place[c];
    }
  }
}

// One row; kDense: its elements are adjacent in each operand. A block without a new extreme, the rule in long rows, is
// filled with the one before. In others no branch follows the data, since the processor cannot foresee ties.
template <class S, bool kMax, bool kDense>
void scan_row(const Rows& rows, const S* in, S* values, int64_t* indices) {
  using U = decltype(order_key(S{}));
  constexpr int64_t kBlock = 16;
  const int64_t in_stride = kDense ? 1 : rows.in_stride, values_stride = kDense ? 1 : rows.values_stride,
                indices_stride = kDense ? 1 : rows.indices_stride;
  U best = extreme_key<S, kMax>(in[0]), keys[kBlock];
  int64_t place = 0;
  for (int64_t i = 0; i < rows.size; i += kBlock) {
    const int64_t n = rows.size - i < kBlock ? rows.size - i : kBlock;
    if (kDense && n == kBlock) {
      const S value = in[place];
      U any = 0;
      for (int64_t j = 0; j < kBlock; ++j) keys[j] = extreme_key<S, kMax>(in[i + j]);
      for (int64_t j = 0; j < kBlock; ++j) any = static_cast<U>(any | (keys[j] >= best));
      if (!any) {
        for (int64_t j = 0; j < kBlock; ++j) values[i + j] = value;
        for (int64_t j = 0; j < kBlock; ++j) indices[i + j] = place;
        continue;
      }
    } else {
      for (int64_t j = 0; j < n; ++j) keys[j] = extreme_key<S, kMax>(in[(i + j) * in_stride]);
    }
    for (int64_t j = 0; j < n; ++j) {
      const bool next = keys[j] >= best;
      best = next ? keys[j] : best;
      place = next ? i + j : place;
      asm("" : "+r"(best), "+r"(place));  // or the compiler would make a branch of both
      values[(i + j) * values_stride] = in[place * in_stride];
      indices[(i + j) * indices_stride] = place;
    }
  }
}

template <class S, bool kMax>
void scan_extreme(const Launch& l) {
  Rows rows(l, CummaxParameters::read(l.desc).dim);
  int64_t s[3] = {};
  // Along a dimension that is not the contiguous one, rows are taken together.
  const bool together = rows.in_stride != 1 && rows.dims.ndim > 0;
  const int64_t width = together ? rows.dims.pop(s) : 1;
  const bool dense = rows.in_stride == 1 && rows.values_stride == 1 && rows.indices_stride == 1;
  const int64_t per_task = rows.size * min_of(width, kColumns);
  const auto part = [&](const Cursor<3>& at, int64_t first, int64_t columns) {
    const S* in = l.ptr<const S>(Operand::kInput) + at.offsets[2] + first * s[2];
    S* values = l.ptr<S>(Operand::kValues) + at.offsets[0] + first * s[0];
    int64_t* indices = l.ptr<int64_t>(Operand::kIndices) + at.offsets[1] + first * s[1];
    if (columns == 1 && dense) scan_row<S, kMax, true>(rows, in, values, indices);
    else if (columns == 1) scan_row<S, kMax, false>(rows, in, values, indices);
    else scan_columns<S, kMax>(rows, in, values, indices, s[2], s[0], s[1], columns);
  };
  for_each_part(rows.dims, width, kColumns, grain_for(2 * per_task), part);
}

template <bool kMax>
atalla_status run_extreme(const Launch& l) {
  ATALLA_CHECK(check_rows(l, CummaxParameters::read(l.desc).dim));
  if (element_count(l.operand(Operand::kInput)) == 0) return ATALLA_OK;
  dispatch_sortable(l.operand(Operand::kInput).dtype, [&]<class S>(S) { scan_extreme<S, kMax>(l); });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily scan_extreme_kernels = {
    {"cummax", kSortableDtypes, run_extreme<true>},
    {"cummin", kSortableDtypes, run_extreme<false>},
};

}  // namespace atalla::sim::ATALLA_ISA
