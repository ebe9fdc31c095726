// SPDX-License-Identifier: BSD-3-Clause
//
// Distinct elements, or rows, of a sequence in which equal ones stand together. unique.count numbers the runs and gives
// their total, by which the caller sizes the results; unique.write fills them.
//
// Instruction sets: up to avx2
#include "sim/kernels/matrix/gemm_scratch.h"
#include "sim/kernels/sort/sort_keys.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Count = UniqueCountOperands;

using Write = UniqueWriteOperands;

constexpr int64_t kCountChunk = 16384;

// Rows [n, k] (k = 1 for a sequence of elements) in an order that is given or their own.
template <class S>
struct Sequence {
  const S* x;
  int64_t n, width, row_stride, stride;
  const int64_t* order;

  Sequence(const Launch& l, int in, int order_operand) {
    const atalla_operand& o = l.operand(in);
    x = l.ptr<const S>(in);
    n = o.sizes[0], row_stride = o.strides[0];
    width = o.ndim == 2 ? o.sizes[1] : 1, stride = o.ndim == 2 ? o.strides[1] : 0;
    order = order_operand < l.desc.n_operands ? l.ptr<const int64_t>(order_operand) : nullptr;
  }
  int64_t source(int64_t i) const { return order ? order[i] : i; }
  const S* row(int64_t i) const { return x + source(i) * row_stride; }
  // A NaN differs from everything.
  static bool differ(S a, S b) {
    const auto u = order_key(a), v = order_key(b);
    return u != v || (kHasNaN<S> && u == kLastKey<S>);
  }
  bool rows_differ(int64_t i, int64_t j) const {
    const S *a = row(i), *b = row(j);
    if (width == 1) return differ(*a, *b);
    for (int64_t k = 0; k < width; ++k) {
      if (differ(a[k * stride], b[k * stride])) return true;
    }
    return false;
  }
};

template <class S>
bool count_runs(const Launch& l) {
  const Sequence<S> x(l, 2, 3);
  int64_t* ranks = l.ptr<int64_t>(Count::kRanks);
  const int64_t chunks = (x.n + kCountChunk - 1) / kCountChunk;
  int64_t* firsts = scratch<int64_t>(ScratchSlot::SortA, chunks);
  if (firsts == nullptr) return false;
  parallel_for(x.n, kCountChunk, [&](int64_t begin, int64_t end) {
    int64_t rank = 0;
    for (int64_t i = begin; i < end; ++i) {
      if (i % kCountChunk == 0) rank = 0;
      if (i > 0) rank += x.rows_differ(i, i - 1);
      ranks[i] = rank;
    }
  });
  int64_t total = 0;
  for (int64_t c = 0; c < chunks; ++c) {
    firsts[c] = total;
    const int64_t last = (c + 1) * kCountChunk < x.n ? (c + 1) * kCountChunk : x.n;
    total += ranks[last - 1];
  }
  parallel_for(x.n, kCountChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ranks[i] += firsts[i / kCountChunk];
  });
  *l.ptr<int64_t>(Count::kTotal) = total + 1;
  return true;
}

// Where the run that begins at i ends; ranks ascend.
int64_t run_end(const int64_t* ranks, int64_t i, int64_t n) {
  int64_t step = 1, low = i;
  while (low + step < n && ranks[low + step] == ranks[i]) low += step, step *= 2;
  int64_t high = low + step < n ? low + step : n;  // beyond the run
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (ranks[middle] == ranks[i]) low = middle;
    else high = middle;
  }
  return high;
}

template <class S>
void write_runs(const Launch& l) {
  const Sequence<S> x(l, Write::kInput, Write::kOrder);
  const int64_t* ranks = l.ptr<const int64_t>(Write::kRanks);
  S* values = l.ptr<S>(Write::kValues);
  int64_t *inverse = l.ptr<int64_t>(Write::kInverse), *counts = l.ptr<int64_t>(Write::kCounts);
  parallel_for(x.n, kCountChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (inverse) inverse[x.source(i)] = ranks[i];
      if (i > 0 && ranks[i] == ranks[i - 1]) continue;
      if (counts) counts[ranks[i]] = run_end(ranks, i, x.n) - i;
      if (!values) continue;
      const S* row = x.row(i);
      S* out = values + ranks[i] * x.width;
      for (int64_t k = 0; k < x.width; ++k) out[k] = row[k * x.stride];
    }
  });
}

// An operand of I64 numbers, contiguous and of the given length (-1: any).
atalla_status check_numbers(const Launch& l, int i, int64_t length, bool optional) {
  const atalla_operand& o = l.operand(i);
  if (optional && is_absent(o)) return ATALLA_OK;
  if (is_contiguous(o) && (length < 0 || element_count(o) == length)) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "operand {} is not contiguous, or of the wrong length", i);
}

atalla_status check_sequence(const Launch& l, int in) {
  const atalla_operand& o = l.operand(in);
  if ((o.ndim == 1 || o.ndim == 2) && o.sizes[0] > 0) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "expected elements [n] or rows [n, k], and at least one");
}

atalla_status check_order(const Launch& l, int i, int64_t n) {
  if (i >= l.desc.n_operands || is_absent(l.operand(i))) return ATALLA_OK;
  ATALLA_CHECK(check_numbers(l, i, n, false));
  for (int64_t k = 0; k < n; ++k) {
    const int64_t x = l.ptr<const int64_t>(i)[k];
    if (x >= 0 && x < n) continue;
    return fail(l, ATALLA_ERR_FAULT_INDEX, "position {} is out of range for {} rows", x, n);
  }
  return ATALLA_OK;
}

atalla_status run_count(const Launch& l) {
  ATALLA_CHECK(check_sequence(l, Count::kInput));
  const int64_t n = l.operand(Count::kInput).sizes[0];
  ATALLA_CHECK(check_order(l, Count::kOrder, n));
  bool done = false;
  dispatch_sortable(l.operand(Count::kInput).dtype, [&]<class S>(S) { done = count_runs<S>(l); });
  return done ? ATALLA_OK : fail(l, ATALLA_ERR_SYSTEM, "no host memory");
}

atalla_status run_write(const Launch& l) {
  ATALLA_CHECK(check_sequence(l, Write::kInput));
  const int64_t n = l.operand(Write::kInput).sizes[0],
                width = l.operand(Write::kInput).ndim == 2 ? l.operand(Write::kInput).sizes[1] : 1;
  ATALLA_CHECK(check_numbers(l, Write::kRanks, n, false));
  ATALLA_CHECK(check_numbers(l, Write::kInverse, n, true));
  const int64_t* ranks = l.ptr<const int64_t>(Write::kRanks);
  const int64_t total = ranks[n - 1] + 1;
  for (int64_t i = 0; i < n; ++i) {
    if (ranks[i] == (i > 0 ? ranks[i - 1] : 0) || (i > 0 && ranks[i] == ranks[i - 1] + 1)) continue;
    return fail(l, ATALLA_ERR_FAULT_INDEX, "the ranks are not those of unique.count");
  }
  ATALLA_CHECK(check_numbers(l, Write::kCounts, total, true));
  ATALLA_CHECK(check_order(l, Write::kOrder, n));
  if (!is_absent(l.operand(Write::kValues))) {
    if (!is_contiguous(l.operand(Write::kValues)) || element_count(l.operand(Write::kValues)) != total * width) {
      return fail(l, ATALLA_ERR_ARGUMENT, "the values are not contiguous, or not {} of them", total * width);
    }
  }
  dispatch_sortable(l.operand(Write::kInput).dtype, [&]<class S>(S) { write_runs<S>(l); });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily unique_kernels = {
    {"unique.count", kSortableDtypes, run_count},
    {"unique.write", kSortableDtypes, run_write},
};

}  // namespace atalla::sim::ATALLA_ISA
