// SPDX-License-Identifier: BSD-3-Clause
//
// searchsorted: where values would be inserted in sorted rows. isin: whether elements are among a list.
//
// Instruction sets: up to avx2
#include "sim/kernels/matrix/gemm_scratch.h"
#include "sim/kernels/sort/sort_engine.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Isin = IsinOperands;

using Search = SearchsortedOperands;

constexpr int64_t kSearchBlock = 1024;

// The type in which elements of storage type S are compared.
template <class S>
using Compared = std::conditional_t<kIsHalf<S>, float, std::conditional_t<std::is_same_v<S, BoolByte>, uint8_t, S>>;

// A NaN among the values compares as larger than all boundaries.
template <class S>
int64_t bound(const S* row, int64_t stride, const int64_t* sorter, int64_t sorter_stride, int64_t n, Compared<S> value,
              bool right) {
  int64_t base = 0;
  while (n > 0) {
    const int64_t half = n / 2, middle = base + half;
    const int64_t at = sorter ? sorter[middle * sorter_stride] : middle;
    const auto x = convert<Compared<S>>(row[at * stride]);
    const bool behind = right ? !(x > value) : !(x >= value);
    base = behind ? middle + 1 : base;
    n = behind ? n - half - 1 : half;
  }
  return base;
}

atalla_status check_sorter(const Launch& l, int64_t n) {
  const atalla_operand& o = l.operand(Search::kSorter);
  Dims<1> dims;
  for (int d = 0; d < o.ndim; ++d) dims.add(o.sizes[d], o.strides[d]);
  const int64_t count = dims.count();
  if (count == 0) return ATALLA_OK;
  Cursor<1> c(dims, 0);
  for (int64_t i = 0; i < count; ++i, c.next()) {
    const int64_t x = l.ptr<const int64_t>(Search::kSorter)[c.offsets[0]];
    if (x >= 0 && x < n) continue;
    return fail(l, ATALLA_ERR_FAULT_INDEX, "sorter index {} is out of range for rows of {}", x, n);
  }
  return ATALLA_OK;
}

atalla_status check_searchsorted(const Launch& l) {
  const atalla_operand &rows = l.operand(Search::kRows), &values = l.operand(Search::kValues);
  bool fits = rows.ndim == 1 || (rows.ndim > 1 && rows.ndim == values.ndim);
  for (int d = 0; fits && d + 1 < rows.ndim; ++d) fits = rows.sizes[d] == values.sizes[d];
  if (!fits) return fail(l, ATALLA_ERR_ARGUMENT, "the rows do not go with the values");
  if (l.desc.n_operands == Search::kSorter || is_absent(l.operand(Search::kSorter))) return ATALLA_OK;
  return check_sorter(l, rows.sizes[rows.ndim - 1]);
}

template <class S, class X>
void search(const Launch& l) {
  const atalla_operand &out = l.operand(Search::kOut), &rows = l.operand(Search::kRows),
                       &values = l.operand(Search::kValues);
  const bool sorted = l.desc.n_operands == Search::kSorter || l.operand(Search::kSorter).addr == 0;
  const bool right = SearchsortedParameters::read(l.desc).right;
  const int last = rows.ndim - 1;
  const int64_t n = rows.sizes[last], stride = rows.strides[last];
  const int64_t sorter_stride = sorted ? 0 : l.operand(Search::kSorter).strides[last];
  Dims<4> dims;  // out, values, rows, sorter
  for (int d = 0; d < values.ndim; ++d) {
    const bool along = d < last;
    dims.add(values.sizes[d], out.strides[d], values.strides[d], along ? rows.strides[d] : 0,
             along && !sorted ? l.operand(Search::kSorter).strides[d] : 0);
  }
  int64_t s[4] = {};
  const bool shared = dims.ndim > 0 && dims.strides[2][dims.ndim - 1] == 0 && dims.strides[3][dims.ndim - 1] == 0;
  const int64_t length = shared ? dims.pop(s) : 1;
  const auto part = [&](const Cursor<4>& c, int64_t first, int64_t count) {
    const S* row = l.ptr<const S>(Search::kRows) + c.offsets[2];
    const int64_t* sorter = sorted ? nullptr : l.ptr<const int64_t>(Search::kSorter) + c.offsets[3];
    for (int64_t i = first; i < first + count; ++i) {
      const auto value = convert<Compared<S>>(l.ptr<const S>(Search::kValues)[c.offsets[1] + i * s[1]]);
      l.ptr<X>(Search::kOut)[c.offsets[0] + i * s[0]] =
          static_cast<X>(bound(row, stride, sorter, sorter_stride, n, value, right));
    }
  };
  for_each_part(dims, length, kSearchBlock, grain_for(16 * length), part);
}

atalla_status run_searchsorted(const Launch& l) {
  ATALLA_CHECK(check_searchsorted(l));
  if (element_count(l.operand(Search::kOut)) == 0) return ATALLA_OK;
  dispatch_sortable(l.operand(Search::kValues).dtype, [&]<class S>(S) {
    if (l.operand(Search::kOut).dtype == ATALLA_I64) search<S, int64_t>(l);
    else search<S, int32_t>(l);
  });
  return ATALLA_OK;
}

// The keys of the list without NaNs, sorted.
template <class S>
int64_t sorted_keys(const Launch& l, uint64_t* keys, Entry<S>* e, Entry<S>* spare) {
  const int64_t n = element_count(l.operand(Isin::kList));
  load_entries(l.ptr<const S>(Isin::kList), l.operand(Isin::kList).ndim > 0 ? l.operand(Isin::kList).strides[0] : 1, n,
               false, e);
  const Entry<S>* sorted = sort_entries(e, spare, n, kKeyBits<S>);
  int64_t valid = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (kHasNaN<S> && sorted[i].key() == kLastKey<S>) break;
    keys[valid++] = sorted[i].key();
  }
  return valid;
}

template <class S>
bool test_elements(const Launch& l) {
  const atalla_operand &out = l.operand(Isin::kOut), &in = l.operand(Isin::kElements);
  const int64_t n = element_count(l.operand(Isin::kList));
  Entry<S>* e = scratch<Entry<S>>(ScratchSlot::SortA, n);
  Entry<S>* spare = scratch<Entry<S>>(ScratchSlot::SortB, n);
  uint64_t* keys = scratch<uint64_t>(ScratchSlot::SortC, n);
  if (e == nullptr || spare == nullptr || keys == nullptr) return false;
  const int64_t count = sorted_keys<S>(l, keys, e, spare);
  const bool invert = IsinParameters::read(l.desc).invert;
  constexpr int64_t kFew = 16;
  Dims<2> dims;
  for (int d = 0; d < in.ndim; ++d) dims.add(in.sizes[d], out.strides[d], in.strides[d]);
  int64_t s[2];
  const int64_t length = dims.pop(s);
  const auto part = [&](const Cursor<2>& c, int64_t first, int64_t elements) {
    for (int64_t i = first; i < first + elements; ++i) {
      const uint64_t key = order_key(l.ptr<const S>(Isin::kElements)[c.offsets[1] + i * s[1]]);
      bool found = false;
      if (count <= kFew) {
        for (int64_t k = 0; k < count; ++k) found |= keys[k] == key;
      } else {
        int64_t base = 0;
        for (int64_t size = count; size > 1;) {
          const int64_t half = size / 2;
          base = keys[base + half] <= key ? base + half : base;
          size -= half;
        }
        found = keys[base] == key;
      }
      l.ptr<uint8_t>(Isin::kOut)[c.offsets[0] + i * s[0]] = static_cast<uint8_t>(found != invert);
    }
  };
  for_each_part(dims, length, kSearchBlock, grain_for(8 * length), part);
  return true;
}

atalla_status run_isin(const Launch& l) {
  if (l.operand(Isin::kList).ndim > 1) return fail(l, ATALLA_ERR_ARGUMENT, "the list has more than one dimension");
  if (element_count(l.operand(Isin::kList)) >= kMaxSortLength)
    return fail(l, ATALLA_ERR_UNSUPPORTED, "too long a list");
  if (element_count(l.operand(Isin::kOut)) == 0) return ATALLA_OK;
  bool done = false;
  dispatch_sortable(l.operand(Isin::kElements).dtype, [&]<class S>(S) { done = test_elements<S>(l); });
  return done ? ATALLA_OK : fail(l, ATALLA_ERR_SYSTEM, "no host memory for the list");
}

}  // namespace

extern constexpr KernelFamily search_kernels = {
    {"searchsorted", kSortableDtypes, run_searchsorted},
    {"isin", kSortableDtypes, run_isin},
};

}  // namespace atalla::sim::ATALLA_ISA
