// SPDX-License-Identifier: BSD-3-Clause
//
// topk, kthvalue, median and mode: parts of a row's order without all of it.
//
// Which of several equal elements is returned follows upstream's CPU: its algorithms are the standard library's
// partial_sort, nth_element and sort, and a quickselect with a median of three, over pairs that compare by value alone.
// Where a launch asks for the stable order, pairs compare by value and then by position.
//
// Instruction sets: up to avx2
#include <algorithm>

#include "sim/kernels/matrix/gemm_scratch.h"
#include "sim/kernels/sort/sort_keys.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = TopkOperands;

struct ByKeyThenPosition {
  template <class E>
  bool operator()(const E& a, const E& b) const {
    return before(a, b);
  }
};

struct TopK {
  int64_t k;
  bool descending, sorted, stable;

  template <class S>
  void select_from(const S* x, int64_t stride, int64_t n, Entry<S>* e) const {
    if (stable) {
      partial_sort(x, stride, n, e, ByKeyThenPosition{});
    } else if (k * 64 <= n) {
      partial_sort(x, stride, n, e, ByKey{});
    } else {
      load_entries(x, stride, n, descending, e);
      std::nth_element(e, e + (k - 1), e + n, ByKey{});
      if (sorted) std::sort(e, e + (k - 1), ByKey{});
    }
  }

  // The standard library's, which keeps a heap of k entries. Later elements become entries only if they enter the
  // heap: most do not, so that a block of them is compared with the heap's top at once. e has room for k + 1.
  template <class S, class Order>
  void partial_sort(const S* x, int64_t stride, int64_t n, Entry<S>* e, Order order) const {
    using U = decltype(order_key(S{}));
    constexpr int64_t kBlock = 16;
    load_entries(x, stride, k, descending, e);
    std::make_heap(e, e + k, order);
    for (int64_t i = k; i < n; i += kBlock) {
      const int64_t count = n - i < kBlock ? n - i : kBlock;
      U keys[kBlock], any = 0, top = static_cast<U>(e[0].key());
      if (count == kBlock && stride == 1) {
        load_keys(x + i, 1, kBlock, descending, keys);
        for (int64_t j = 0; j < kBlock; ++j) any = static_cast<U>(any | (keys[j] < top));
        if (!any) continue;
      } else {
        load_keys(x + i * stride, stride, count, descending, keys);
      }
      for (int64_t j = 0; j < count; ++j) {
        if (keys[j] >= top) continue;
        e[k] = Entry<S>::make(keys[j], i + j);
        std::pop_heap(e, e + k + 1, order);
        top = static_cast<U>(e[0].key());
      }
    }
    std::sort_heap(e, e + k, order);
  }
};

struct KthValue {
  int64_t k;  // from 0 on
  bool stable;
  bool descending = false;

  template <class E>
  void select(E* e, int64_t n) const {
    if (stable) std::nth_element(e, e + k, e + n, ByKeyThenPosition{});
    else quickselect(e, n);
    std::swap(e[0], e[k]);
  }

  // With a median of three: Sedgewick, "Implementing Quicksort Programs", CACM 1978.
  template <class E>
  void quickselect(E* e, int64_t n) const {
    auto order = [&](int64_t a, int64_t b) {
      if (e[a].key() > e[b].key()) std::swap(e[a], e[b]);
    };
    int64_t left = 0, right = n - 1;
    while (right > left + 1) {
      std::swap(e[(left + right) / 2], e[left + 1]);
      order(left + 1, right);
      order(left, right);
      order(left + 1, left);
      const uint64_t pivot = e[left].key();
      int64_t i = left + 1, j = right;
      for (;;) {
        do ++i;
        while (e[i].key() < pivot);
        do --j;
        while (e[j].key() > pivot);
        if (j < i) break;
        std::swap(e[i], e[j]);
      }
      std::swap(e[left], e[j]);
      if (j <= k) left = i;
      if (j >= k) right = j - 1;
    }
    if (right == left + 1) order(left, right);
  }
};

struct Median {
  bool ignore_nan, has_nan;
  uint64_t nan_key;
  bool descending = false;
  static constexpr int64_t k = 1;

  // The first NaN, if NaNs count; else the lower median of the others.
  template <class E>
  void select(E* e, int64_t n) const {
    int64_t valid = n;
    if (has_nan) {
      valid = 0;
      for (int64_t i = 0; i < n; ++i) {
        const bool nan = e[i].key() == nan_key;
        valid += !nan;
        if (nan && !ignore_nan) {
          e[0] = e[i];
          return;
        }
      }
    }
    E* middle = e + (valid > 0 ? (valid - 1) / 2 : 0);
    std::nth_element(e, middle, e + n, ByKeyThenPosition{});
    e[0] = *middle;
  }
};

struct Mode {
  bool has_nan;
  uint64_t nan_key;
  bool stable;
  bool descending = false;
  static constexpr int64_t k = 1;

  // The least of the most frequent values. A NaN equals nothing.
  template <class E>
  void select(E* e, int64_t n) const {
    if (stable) std::sort(e, e + n, ByKeyThenPosition{});
    else std::sort(e, e + n, ByKey{});
    int64_t frequency = 0, most = 0, found = 0;
    for (int64_t i = 0; i < n; ++i) {
      ++frequency;
      const bool last = i == n - 1 || e[i].key() != e[i + 1].key() || (has_nan && e[i].key() == nan_key);
      if (!last) continue;
      if (frequency > most) most = frequency, found = i;
      frequency = 0;
    }
    e[0] = e[found];
  }
};

// Runs `way` on every row along `dim` and writes its first `count` entries.
template <class S, class Way>
bool select_rows(const Launch& l, const Way& way, int64_t dim, int64_t count) {
  using E = Entry<S>;
  const Rows rows(l, dim);
  const int64_t n = rows.size;
  return parallel_try(rows.dims.count(), grain_for(4 * n), [&](int64_t begin, int64_t end) {
    E* e = scratch<E>(ScratchSlot::SortA, n + 1);
    if (e == nullptr) return false;
    Cursor<3> c(rows.dims, begin);
    for (int64_t r = begin; r < end; ++r, c.next()) {
      const S* in = l.ptr<const S>(Operand::kInput) + c.offsets[2];
      if constexpr (requires { way.select_from(in, rows.in_stride, n, e); }) {
        way.select_from(in, rows.in_stride, n, e);
      } else {
        load_entries(in, rows.in_stride, n, way.descending, e);
        way.select(e, n);
      }
      if (int64_t* x = l.ptr<int64_t>(Operand::kIndices)) {
        x += c.offsets[1];
        for (int64_t i = 0; i < count; ++i) x[i * rows.indices_stride] = e[i].index();
      }
      if (S* v = l.ptr<S>(Operand::kValues)) {
        v += c.offsets[0];
        for (int64_t i = 0; i < count; ++i) v[i * rows.values_stride] = in[e[i].index() * rows.in_stride];
      }
    }
    return true;
  });
}

// `make`: the way of a row, given the row's length and a value of the DRAM type.
template <class Make>
atalla_status run_selection(const Launch& l, int64_t dim, int64_t count, Make&& make) {
  ATALLA_CHECK(check_rows(l, dim));
  if (element_count(l.operand(Operand::kInput)) == 0 || count == 0) return ATALLA_OK;
  for (const int i : {Operand::kValues, Operand::kIndices}) {
    if (l.data[i] != nullptr && l.data[i] == l.data[Operand::kInput]) {
      return fail(l, ATALLA_ERR_ARGUMENT, "the result cannot be written over the input");
    }
  }
  bool done = false;
  dispatch_sortable(l.operand(Operand::kInput).dtype,
                    [&](auto tag) { done = select_rows<decltype(tag)>(l, make(tag), dim, count); });
  return done ? ATALLA_OK : no_memory_for_keys(l);
}

atalla_status check_k(const Launch& l, int64_t dim, int64_t k, int64_t least) {
  const int64_t length = size_along(l.operand(Operand::kInput), dim);
  if (k >= least && k <= length) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "k is {}, of rows of {} elements", k, length);
}

atalla_status run_topk(const Launch& l) {
  const TopkParameters p = TopkParameters::read(l.desc);
  ATALLA_CHECK(check_k(l, p.dim, p.k, 0));
  return run_selection(l, p.dim, p.k, [&](auto) { return TopK{p.k, p.largest, p.sorted, p.stable}; });
}

atalla_status run_kthvalue(const Launch& l) {
  const KthvalueParameters p = KthvalueParameters::read(l.desc);
  ATALLA_CHECK(check_k(l, p.dim, p.k, 1));
  return run_selection(l, p.dim, 1, [&](auto) { return KthValue{p.k - 1, p.stable}; });
}

atalla_status run_median(const Launch& l) {
  const MedianParameters p = MedianParameters::read(l.desc);
  return run_selection(l, p.dim, 1, [&]<class S>(S) { return Median{p.ignore_nan, kHasNaN<S>, kLastKey<S>}; });
}

atalla_status run_mode(const Launch& l) {
  const ModeParameters p = ModeParameters::read(l.desc);
  return run_selection(l, p.dim, 1, [&]<class S>(S) { return Mode{kHasNaN<S>, kLastKey<S>, p.stable}; });
}

}  // namespace

extern constexpr KernelFamily select_k_kernels = {
    {"topk", kSortableDtypes, run_topk},
    {"kthvalue", kSortableDtypes, run_kthvalue},
    {"median", kSortableDtypes, run_median},
    {"mode", kSortableDtypes, run_mode},
};

}  // namespace atalla::sim::ATALLA_ISA
