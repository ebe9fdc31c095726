// SPDX-License-Identifier: BSD-3-Clause
//
// Index tensors that sizes and counts determine: the coordinates of a triangle, and an index for each repetition.
//
// Instruction sets: up to avx2
#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = RepeatInterleaveOperands;

// Elements of the lower triangle in the rows before `row`: the sum of clamp(r + diagonal + 1, 0, columns).
int64_t lower_before(int64_t row, int64_t columns, int64_t diagonal) {
  const int64_t begins = -diagonal > 0 ? -diagonal : 0;                    // the first row with an element
  const int64_t full = columns - diagonal - 1;                             // the first row that is full
  const int64_t grows = row < full ? row : full > begins ? full : begins;  // rows [begins, grows) are partial
  int64_t n = 0;
  if (grows > begins) n += (grows - begins) * (begins + diagonal + 1 + grows + diagonal) / 2;
  const int64_t from = full > begins ? full : begins;
  if (row > from) n += (row - from) * columns;
  return n;
}

template <class T>
void fill_triangle(const Launch& l, int64_t rows, int64_t columns, int64_t diagonal, bool upper) {
  const atalla_operand& out = l.operand(Operand::kOut);
  const int64_t to_column = out.strides[0], step = out.strides[1];
  // The elements of a row that are not in the upper triangle are those of the lower one of the diagonal before. The
  // loop leaves out rows without elements, since there may be many.
  if (upper) --diagonal;
  const int64_t before = upper || diagonal >= 0 ? 0 : -diagonal - 1;
  const int64_t filled = upper ? std::min(rows, columns - diagonal) : rows;
  parallel_for(
      filled - before, columns >= 16384 ? 1 : 16384 / (columns + 1) + 1, [&](int64_t first_row, int64_t end_row) {
        const int64_t begin = before + first_row, end = before + end_row;
        int64_t position = lower_before(begin, columns, diagonal);
        if (upper) position = begin * columns - position;
        T* o = l.ptr<T>(Operand::kOut) + position * step;
        for (int64_t r = begin; r < end; ++r) {
          const int64_t split = r + diagonal + 1 < 0 ? 0 : r + diagonal + 1 > columns ? columns : r + diagonal + 1;
          const int64_t first = upper ? split : 0, last = upper ? columns : split;
          for (int64_t c = first; c < last; ++c, o += step) {
            *o = convert<T>(r);
            o[to_column] = convert<T>(c);
          }
        }
      });
}

atalla_status run_triangle_indices(const Launch& l) {
  const atalla_operand& out = l.operand(Operand::kOut);
  const TriangleIndicesParameters p = TriangleIndicesParameters::read(l.desc);
  const int64_t rows = p.rows, columns = p.columns;
  const bool upper = p.upper;
  // A diagonal beyond the matrix is clamped, so that no sum overflows.
  const int64_t diagonal = p.diagonal < -rows ? -rows : p.diagonal > columns ? columns : p.diagonal;
  const int64_t lower = lower_before(rows, columns, upper ? diagonal - 1 : diagonal);
  const int64_t n = upper ? rows * columns - lower : lower;
  if (rows < 0 || columns < 0 || out.sizes[1] != n) {
    return fail(l, ATALLA_ERR_ARGUMENT, "the output is not a matrix of 2 rows and {} columns", n);
  }
  if (n == 0) return ATALLA_OK;
  dispatch_dtype(out.dtype, [&](auto tag) { fill_triangle<decltype(tag)>(l, rows, columns, diagonal, upper); });
  return ATALLA_OK;
}

// out[ends[i - 1] .. ends[i]) = i, where ends is the running sum of the repetitions.
template <class T>
void fill_repeats(const Launch& l, int64_t n) {
  const int64_t* ends = l.ptr<const int64_t>(Operand::kEnds);
  const int64_t stride = l.operand(Operand::kEnds).strides[0], step = l.operand(Operand::kOut).strides[0];
  T* out = l.ptr<T>(Operand::kOut);
  parallel_for(n, 1024, [&](int64_t begin, int64_t end) {
    int64_t p = begin == 0 ? 0 : ends[(begin - 1) * stride];
    for (int64_t i = begin; i < end; ++i) {
      for (const int64_t stop = ends[i * stride]; p < stop; ++p) out[p * step] = static_cast<T>(i);
    }
  });
}

atalla_status run_repeat_interleave(const Launch& l) {
  const atalla_operand &out = l.operand(Operand::kOut), &ends = l.operand(Operand::kEnds);
  const int64_t n = ends.sizes[0];
  int64_t previous = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t e = *l.at<const int64_t>(Operand::kEnds, i);
    if (e < previous) return set_error(ATALLA_ERR_ARGUMENT, "repeats can not be negative");
    previous = e;
  }
  if (previous != out.sizes[0]) {
    return set_error(ATALLA_ERR_ARGUMENT, "allocated size does not match required size (%lld, %lld)",
                     static_cast<long long>(out.sizes[0]), static_cast<long long>(previous));
  }
  if (out.dtype == ATALLA_I64) {
    fill_repeats<int64_t>(l, n);
  } else {
    fill_repeats<int32_t>(l, n);
  }
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily generate_kernels = {
    {"triangle_indices", kAllDtypes, run_triangle_indices},
    {"repeat_interleave", kAllDtypes, run_repeat_interleave},
};

}  // namespace atalla::sim::ATALLA_ISA
