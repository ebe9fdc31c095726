// SPDX-License-Identifier: BSD-3-Clause
//
// sort: rows along one dimension, stable, with the positions that the values came from. sort_rows: the order of the
// rows of a matrix, by their first elements, then the second, ...
//
// Instruction sets: up to avx2
#include <algorithm>

#include "sim/kernels/matrix/gemm_scratch.h"
#include "sim/kernels/sort/sort_engine.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = SortOperands;

// Where equal elements may come in any order, bytes (which are mostly equal) come in the order of upstream's CPU: that
// of the standard library's sort. Rows for which this would be slow are sorted in the stable order.
constexpr int64_t kUpstreamOrderLength = 16384;

template <class S>
struct SortRows {
  using E = Entry<S>;
  const Launch& l;
  Rows rows;
  bool descending, any_order;

  SortRows(const Launch& launch, const SortParameters& p) : l(launch), rows(launch, p.dim), descending(p.descending) {
    any_order = p.any_order && sizeof(S) == 1 && rows.size <= kUpstreamOrderLength;
  }

  E* sort_row(E* e, E* spare) const {
    if (!any_order) return sort_entries(e, spare, rows.size, kKeyBits<S>);
    std::sort(e, e + rows.size, ByKey{});
    return e;
  }

  void row(const Cursor<3>& c, E* e, E* spare) const {
    const int64_t n = rows.size;
    const S* in = l.ptr<const S>(Operand::kInput) + c.offsets[2];
    load_entries(in, rows.in_stride, n, descending, e);
    const E* sorted = sort_row(e, spare);
    if (int64_t* x = l.ptr<int64_t>(Operand::kIndices)) {
      x += c.offsets[1];
      for (int64_t i = 0; i < n; ++i) x[i * rows.indices_stride] = sorted[i].index();
    }
    if (S* v = l.ptr<S>(Operand::kValues)) {
      // Collected apart, because the values may take the input's place.
      v += c.offsets[0];
      S* values = reinterpret_cast<S*>(sorted == e ? spare : e);
      for (int64_t i = 0; i < n; ++i) values[i] = in[sorted[i].index() * rows.in_stride];
      for (int64_t i = 0; i < n; ++i) v[i * rows.values_stride] = values[i];
    }
  }

  bool run() const {
    const int64_t n = rows.size, count = rows.dims.count();
    const bool long_rows = n >= kParallelLength;
    const auto some = [&](int64_t begin, int64_t end) {
      E* e = scratch<E>(ScratchSlot::SortA, n);
      E* spare = scratch<E>(ScratchSlot::SortB, n);
      if (e == nullptr || spare == nullptr) return false;
      Cursor<3> c(rows.dims, begin);
      for (int64_t i = begin; i < end; ++i, c.next()) row(c, e, spare);
      return true;
    };
    return long_rows ? some(0, count) : parallel_try(count, grain_for(8 * n), some);
  }
};

atalla_status run_sort(const Launch& l) {
  const SortParameters p = SortParameters::read(l.desc);
  ATALLA_CHECK(check_rows(l, p.dim));
  if (element_count(l.operand(Operand::kInput)) == 0) return ATALLA_OK;
  bool done = false;
  dispatch_sortable(l.operand(Operand::kInput).dtype, [&](auto tag) { done = SortRows<decltype(tag)>(l, p).run(); });
  return done ? ATALLA_OK : no_memory_for_keys(l);
}

// Merges runs of positions; rows compare by their keys, element by element.
template <class S>
void order_rows(const S* x, int64_t row_stride, int64_t stride, int64_t n, int64_t width, int64_t* order,
                int64_t* spare) {
  auto greater = [&](int64_t a, int64_t b) {
    const S *p = x + a * row_stride, *q = x + b * row_stride;
    for (int64_t k = 0; k < width; ++k) {
      const auto u = order_key(p[k * stride]), v = order_key(q[k * stride]);
      if (u != v) return u > v;
    }
    return false;
  };
  int64_t *from = order, *to = spare;
  for (int64_t i = 0; i < n; ++i) from[i] = i;
  for (int64_t run = 1; run < n; run *= 2) {
    const int64_t pairs = (n + 2 * run - 1) / (2 * run);
    parallel_for(pairs, grain_for(2 * run * (width < 8 ? width + 1 : 8)), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        int64_t i = p * 2 * run, o = i;
        const int64_t middle = i + run < n ? i + run : n, last = middle + run < n ? middle + run : n;
        int64_t j = middle;
        while (i < middle && j < last) to[o++] = greater(from[i], from[j]) ? from[j++] : from[i++];
        while (i < middle) to[o++] = from[i++];
        while (j < last) to[o++] = from[j++];
      }
    });
    int64_t* swapped = from;
    from = to, to = swapped;
  }
  if (from != order) std::memcpy(order, from, static_cast<size_t>(n) * sizeof(int64_t));
}

atalla_status run_sort_rows(const Launch& l) {
  const atalla_operand &out = l.operand(SortRowsOperands::kOrder), &in = l.operand(SortRowsOperands::kInput);
  if (element_count(out) == 0) return ATALLA_OK;
  int64_t* spare = scratch<int64_t>(ScratchSlot::SortA, out.sizes[0]);
  if (spare == nullptr) return no_memory_for_keys(l);
  dispatch_sortable(in.dtype, [&]<class S>(S) {
    order_rows(l.ptr<const S>(SortRowsOperands::kInput), in.strides[0], in.strides[1], in.sizes[0], in.sizes[1],
               l.ptr<int64_t>(SortRowsOperands::kOrder), spare);
  });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily sort_kernels = {
    {"sort", kSortableDtypes, run_sort},
    {"sort_rows", kSortableDtypes, run_sort_rows},
};

}  // namespace atalla::sim::ATALLA_ISA
