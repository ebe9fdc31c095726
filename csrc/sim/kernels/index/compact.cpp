// SPDX-License-Identifier: BSD-3-Clause
//
// Selection by masks: counting, the places of the true elements, and moving elements to and from them.
//
// Instruction sets: up to avx2
#include "sim/kernels/index/compact.h"

#include "sim/kernels/index/index.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = CompactNonzeroOperands;

// The counts of a space of n elements, contiguous, one a block and their sum.
atalla_status check_starts(const Launch& l, int i, int64_t n) {
  const atalla_operand& o = l.operand(i);
  if (o.ndim == 1 && o.strides[0] == 1 && o.sizes[0] == blocks_of(n) + 1) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "operand {} is not the contiguous counts of {} blocks and their sum", i,
              blocks_of(n));
}

template <int K>
Dims<K> walk(const Launch& l, const int (&operands)[K]) {
  Dims<K> dims;
  const atalla_operand& first = l.operand(operands[Operand::kOut]);
  for (int d = 0; d < first.ndim; ++d) {
    int64_t s[K];
    for (int k = 0; k < K; ++k) s[k] = l.operand(operands[k]).strides[d];
    dims.add_array(first.sizes[d], s, true);
  }
  return dims;
}

// Where each block's output begins, and the sum of all counts.
atalla_status run_count(const Launch& l) {
  const atalla_operand& in = l.operand(CompactCountOperands::kInput);
  const int64_t n = element_count(in);
  ATALLA_CHECK(check_starts(l, CompactCountOperands::kStarts, n));
  int64_t* starts = l.ptr<int64_t>(CompactCountOperands::kStarts);
  const Runs<1> runs(walk<1>(l, {1}));
  dispatch_dtype(in.dtype, [&]<class M>(M) {
    const M* mask = l.ptr<const M>(CompactCountOperands::kInput);
    parallel_for(blocks_of(n), 4, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        int64_t count = 0;
        runs.each(b * kBlock, min_of(n, (b + 1) * kBlock),
                  [&](const int64_t* o, int64_t k) { count += count_true(mask + o[0], runs.strides[0], k); });
        starts[b] = count;
      }
    });
  });
  int64_t sum = 0;
  for (int64_t b = 0; b <= blocks_of(n); ++b) {
    const int64_t count = b < blocks_of(n) ? starts[b] : 0;
    starts[b] = sum;
    sum += count;
  }
  return ATALLA_OK;
}

// The coordinates of one block's true elements; rows from `limit` on are dropped.
template <class M>
void write_coordinates(const Launch& l, const M* mask, int64_t begin, int64_t end, int64_t row) {
  const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput);
  const int rank = in.ndim, last = rank - 1;
  const int64_t limit = out.sizes[0], to_next = out.strides[0];
  int64_t coordinate[ATALLA_MAX_DIMS], rest = begin, offset = 0;
  for (int d = last; d >= 0; --d) {
    coordinate[d] = rest % in.sizes[d];
    rest /= in.sizes[d];
    if (d < last) offset += coordinate[d] * in.strides[d];
  }
  int32_t list[kBlock];
  while (begin < end && row >= 0 && row < limit) {
    const int64_t at = coordinate[last], left = in.sizes[last] - at, n = left < end - begin ? left : end - begin;
    int64_t found = list_true(mask + offset + at * in.strides[last], in.strides[last], static_cast<int>(n), 0, list);
    if (found > limit - row) found = limit - row;
    int64_t* o = l.ptr<int64_t>(Operand::kOut) + row * to_next;
    for (int d = 0; d < last; ++d) {
      for (int64_t i = 0; i < found; ++i) o[i * to_next + d * out.strides[1]] = coordinate[d];
    }
    for (int64_t i = 0; i < found; ++i) o[i * to_next + last * out.strides[1]] = at + list[i];
    row += found;
    begin += n;
    coordinate[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += in.strides[d];
      if (++coordinate[d] < in.sizes[d]) break;
      offset -= coordinate[d] * in.strides[d];
      coordinate[d] = 0;
    }
  }
}

atalla_status run_nonzero(const Launch& l) {
  const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput);
  const int64_t n = element_count(in);
  if (n == 0 || element_count(out) == 0) return ATALLA_OK;
  ATALLA_CHECK(check_starts(l, Operand::kStarts, n));
  dispatch_dtype(in.dtype, [&]<class M>(M) {
    for_each_block(n, l.ptr<const int64_t>(Operand::kStarts), [&](int64_t begin, int64_t end, int64_t row) {
      write_coordinates(l, l.ptr<const M>(Operand::kInput), begin, end, row);
    });
  });
  return ATALLA_OK;
}

// The checks that select and scatter share. `line` is the operand of one dimension.
atalla_status check_moves(const Launch& l, int line, int mask, int starts) {
  const int64_t n = element_count(l.operand(mask));
  if (n == 0) return ATALLA_OK;
  ATALLA_CHECK(check_starts(l, starts, n));
  const int64_t total = l.ptr<const int64_t>(starts)[blocks_of(n)];
  if (total > l.operand(line).sizes[0]) {
    return fail(l, ATALLA_ERR_ARGUMENT, "Number of elements of source < number of ones in mask ({} < {})",
                l.operand(line).sizes[0], total);
  }
  return ATALLA_OK;
}

// Moves elements between places of a space, where the mask is true, and consecutive ones of a line.
template <bool kToLine>
atalla_status run_moves(const Launch& l, int line, int space, int mask, int starts) {
  const int64_t n = element_count(l.operand(mask));
  if (n == 0 || l.ptr<const int64_t>(starts)[blocks_of(n)] == 0) return ATALLA_OK;
  const Runs<2> runs(walk<2>(l, {mask, space}));
  const int64_t* s = runs.strides;
  const int64_t step = l.operand(line).strides[0], places = l.operand(line).sizes[0];
  const uint8_t* m = l.ptr<const uint8_t>(mask);
  bool right = true;
  dispatch_width(l.operand(space).dtype, [&]<class E>(E) {
    for_each_block(n, l.ptr<const int64_t>(starts), [&](int64_t begin, int64_t end, int64_t position) {
      int32_t list[kBlock];
      runs.each(begin, end, [&](const int64_t* o, int64_t k) {
        const int found = list_true(m + o[0], s[0], static_cast<int>(k), 0, list);
        if (position < 0 || position > places - found) return __atomic_store_n(&right, false, __ATOMIC_RELAXED);
        E* p = l.ptr<E>(line) + position * step;
        E* q = l.ptr<E>(space) + o[1];
        for (int i = 0; i < found; ++i) {
          if constexpr (kToLine) {
            p[i * step] = q[list[i] * s[1]];
          } else {
            q[list[i] * s[1]] = p[i * step];
          }
        }
        position += found;
      });
    });
  });
  if (right) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "the counts of operand {} are not those of the mask", starts);
}

atalla_status run_select(const Launch& l) {
  using Select = CompactSelectOperands;
  ATALLA_CHECK(check_moves(l, Select::kOut, Select::kMask, Select::kStarts));
  return run_moves<true>(l, Select::kOut, Select::kInput, Select::kMask, Select::kStarts);
}

atalla_status run_scatter(const Launch& l) {
  using Scatter = MaskedScatterOperands;
  ATALLA_CHECK(check_moves(l, Scatter::kInput, Scatter::kMask, Scatter::kStarts));
  return run_moves<false>(l, Scatter::kInput, Scatter::kOut, Scatter::kMask, Scatter::kStarts);
}

}  // namespace

extern constexpr KernelFamily compact_kernels = {
    {"compact.count", kAllDtypes, run_count},
    {"compact.nonzero", kAllDtypes, run_nonzero},
    {"compact.select", kAllDtypes, run_select},
    {"masked_scatter", kAllDtypes, run_scatter},
};

}  // namespace atalla::sim::ATALLA_ISA
