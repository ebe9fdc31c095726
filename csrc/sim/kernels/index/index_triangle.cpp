// SPDX-License-Identifier: BSD-3-Clause
//
// triangle: the upper or lower triangle of the last two dimensions, the rest 0.
//
// Instruction sets: up to avx2
#include "sim/kernels/index/index.h"

namespace atalla::sim::ATALLA_ISA {

namespace {

using Operand = TriangleOperands;

template <class E>
void run_triangle_of(const Launch& l, int64_t diagonal, bool upper) {
  const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput);
  const int r = out.ndim - 2, c = out.ndim - 1;
  const int64_t rows = out.sizes[r], columns = out.sizes[c];
  Dims<2> batch;
  for (int d = 0; d < r; ++d) batch.add(out.sizes[d], out.strides[d], in.strides[d]);
  parallel_for(batch.count() * rows, grain_for(columns), [&](int64_t begin, int64_t end) {
    Cursor<2> at_matrix(batch, begin / rows);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = t % rows;
      E* o = l.ptr<E>(Operand::kOut) + at_matrix.offsets[0] + row * out.strides[r];
      const E* i = l.ptr<const E>(Operand::kInput) + at_matrix.offsets[1] + row * in.strides[r];
      // Column j is kept if j - row >= diagonal (upper), or <= diagonal (lower). The bounds are clamped before they are
      // added, so that no diagonal overflows.
      int64_t split = diagonal < -rows ? -rows - 1 : diagonal > columns ? columns + 1 : diagonal;
      split += row + (upper ? 0 : 1);
      split = split < 0 ? 0 : split > columns ? columns : split;
      const int64_t kept = upper ? split : 0, kept_end = upper ? columns : split;
      const int64_t zero = upper ? 0 : split, zero_end = upper ? split : columns;
      const int64_t so = out.strides[c], si = in.strides[c];
      if (o + kept * so != i + kept * si || so != si) copy_row(o + kept * so, so, i + kept * si, si, kept_end - kept);
      if (so == 1) {
        std::memset(static_cast<void*>(o + zero), 0, static_cast<size_t>(zero_end - zero) * sizeof(E));
      } else {
        for (int64_t j = zero; j < zero_end; ++j) o[j * so] = E{};
      }
      if (row == rows - 1) at_matrix.next();
    }
  });
}

atalla_status run_triangle(const Launch& l) {
  const TriangleParameters p = TriangleParameters::read(l.desc);
  if (element_count(l.operand(Operand::kOut)) == 0) return ATALLA_OK;
  dispatch_width(l.operand(Operand::kOut).dtype,
                 [&](auto tag) { run_triangle_of<decltype(tag)>(l, p.diagonal, p.kept == Triangle::kUpper); });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily index_triangle_kernels = {{"triangle", kAllDtypes, run_triangle}};

}  // namespace atalla::sim::ATALLA_ISA
