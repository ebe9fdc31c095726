// SPDX-License-Identifier: BSD-3-Clause
//
// Blocked matrix product of one thread: cache blocking around the micro-kernel.
//
// Loop order, outermost first: columns by kBlockColumns, k by kBlockDepth, rows by kBlockRows, then B panels, then A
// panels. A packed B panel (kBlockDepth x kPanel) is read by every A panel of the row block and stays in L1, the row
// block of A (kBlockRows x kBlockDepth) stays in L2. docs/concepts/gemm.md has the measurements behind the sizes.
#pragma once

#include "sim/kernels/matrix/gemm_epilogue.h"
#include "sim/kernels/matrix/gemm_pairs.h"
#include "sim/kernels/matrix/gemm_scratch.h"

namespace atalla::sim::ATALLA_ISA {

template <class T>
inline constexpr int64_t kBlockDepth = 2048 / static_cast<int64_t>(sizeof(T));
inline constexpr int64_t kBlockRows = 32 * kMaxRows;
inline constexpr int64_t kBlockColumns = 1024;
// With at most this many rows, B is read once or twice only and packing it would cost more than it gains.
inline constexpr int64_t kDirectRows = 2 * kMaxRows;

// Of k in a block: as even as possible.
template <class T>
inline int64_t block_depth(int64_t k) {
  return k <= kBlockDepth<T> ? k : round_up(ceil_div(k, ceil_div(k, kBlockDepth<T>)), 4);
}

template <class T>
struct MatrixProduct {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  MatrixView a;
  MatrixView b;
  Epilogue<T> epilogue;
};

// A in place: k contiguous, in the arithmetic type, and rows that do not fall into the same cache sets.
template <class T>
inline bool reads_a_in_place(const MatrixView& a, int64_t k, int64_t columns) {
  if (a.dtype != kNativeOf<T> || (a.col_stride != 1 && k > 1)) return false;
  const int64_t row_bytes = a.row_stride * static_cast<int64_t>(sizeof(T));
  if (columns <= kPanel<T>) return true;
  return row_bytes % 1024 != 0 && row_bytes < 8192;
}

// B as multiply_block sees it: something that packs panels, and that can perhaps be read in place.
template <class T>
struct MatrixSource {
  const MatrixView& view;

  const T* in_place(int64_t p, int64_t j) const { return reinterpret_cast<const T*>(view.at(p, j)); }
  bool is_readable_in_place() const { return view.dtype == kNativeOf<T> && view.col_stride == 1; }
  int64_t row_stride() const { return view.row_stride; }
  // Rows p .. p + depth of columns j .. j + cols as panels of `depth` rows each, the last one zero-padded.
  void pack(int64_t p, int64_t depth, int64_t j, int64_t cols, T* dst) const {
    constexpr int64_t panel = kPanel<T>;
    MatrixView part{view.at(p, j), view.dtype, view.row_stride, view.col_stride, view.item};
    if (is_readable_in_place() && cols >= panel) {
      copy_panels(part, depth, cols / panel, dst);
      dst += cols / panel * panel * depth;
      part.data = view.at(p, j + cols / panel * panel);
      cols %= panel;
    }
    for (; cols > 0; cols -= panel, dst += panel * depth) {
      pack_matrix<T>(part, depth, min_of(panel, cols), panel, dst, panel);
      part.data = part.at(0, panel);
    }
  }
};

// The kernels of pairs (gemm_pairs.h), where both operands are matrices of narrow dtypes.
template <class T, class Source>
inline const PairKernelTable<T>* pair_kernels_for(const MatrixProduct<T>& g, const Source&) {
  if constexpr (std::is_same_v<Source, MatrixSource<T>>) return pair_kernels_of<T>(g.a.dtype, g.b.dtype);
  return nullptr;
}

// Panels for the kernels of pairs, of `columns` columns from j on, rows p .. p + depth, as MatrixSource::pack has them.
// False: not all values are fit.
template <class T>
inline bool pack_pair_panels(const MatrixView& b, int64_t p, int64_t depth, int64_t j, int64_t columns, T* dst,
                             int64_t values) {
  bool fit = true;
  if constexpr (sizeof(T) == 4) {
    for (int64_t c = 0; c < columns && fit; c += kPanel<T>, dst += kPanel<T> * depth) {
      const MatrixView part{b.at(p, j + c), b.dtype, b.row_stride, b.col_stride, b.item};
      const int64_t width = min_of(kPanel<T>, columns - c);
      if constexpr (std::is_same_v<T, uint32_t>) {
        if (values == 4) {
          fit = pack_quad_panel(part, depth, width, dst);
          continue;
        }
      }
      fit = pack_pair_panel(part, depth, width, dst);
    }
  }
  return fit;
}

// And rows of A.
template <class T>
inline bool pack_rows_of_pairs(const MatrixView& a, int64_t rows, int64_t k, T* dst, int64_t ld, int64_t values) {
  if constexpr (std::is_same_v<T, uint32_t>) {
    if (values == 4) return pack_quad_rows(a, rows, k, dst, ld), true;
  }
  if constexpr (sizeof(T) == 4) return pack_pair_rows(a, rows, k, dst, ld);
  return false;
}

// Computes out[i0 .. i1, j0 .. j1). `source` stands for g.b. False when there is no memory for the packing buffers.
template <class T, class Source>
bool multiply_block(const MatrixProduct<T>& g, const Source& source, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  constexpr int panel = kPanel<T>;
  const int64_t chunks = max_of(1, ceil_div(g.k, kBlockDepth<T>));
  const int64_t depth = block_depth<T>(g.k);
  const int64_t width = min_of(j1 - j0, kBlockColumns);
  const bool out_keeps_partials = g.epilogue.keeps_partials_in_out();
  const int64_t outer = chunks == 1 || out_keeps_partials ? i1 - i0 : 2 * kBlockRows;
  const bool direct_a = reads_a_in_place<T>(g.a, g.k, j1 - j0);
  const bool direct_b = source.is_readable_in_place() && i1 - i0 <= kDirectRows;
  const bool direct_store = chunks == 1 && g.epilogue.stores_directly();
  const int64_t lda_packed = depth + 2 * kLanes<T>;
  const PairKernelTable<T>* const pair_table = pair_kernels_for(g, source);

  T* const packed_b = scratch<T>(ScratchSlot::PackedB, round_up(direct_b ? panel : width, panel) * depth);
  T* const packed_a =
      direct_a ? nullptr
               : scratch<T>(ScratchSlot::PackedA, (min_of(i1 - i0, kBlockRows) + kMaxRows) * lda_packed + panel);
  T* const workspace = chunks == 1 || out_keeps_partials
                           ? nullptr
                           : scratch<T>(ScratchSlot::Partial, min_of(i1 - i0, outer) * round_up(width, panel));
  if (packed_b == nullptr || (!direct_a && packed_a == nullptr)) return false;
  if (chunks > 1 && !out_keeps_partials && workspace == nullptr) return false;

  alignas(64) T tile[kMaxRows * panel];
  for (int64_t io = i0; io < i1; io += outer) {
    const int64_t ie = min_of(io + outer, i1);
    for (int64_t jc = j0; jc < j1; jc += kBlockColumns) {
      const int64_t je = min_of(jc + kBlockColumns, j1);
      for (int64_t pc = 0, chunk = 0; chunk < chunks; ++chunk, pc += depth) {
        const int64_t kc = min_of(depth, g.k - pc);
        const Chunk position{chunk == 0, chunk + 1 == chunks};
        const int64_t in_place_columns = direct_b ? (je - jc) / panel * panel : 0;
        const auto pack_b = [&] { source.pack(pc, kc, jc + in_place_columns, je - jc - in_place_columns, packed_b); };
        const int64_t values = pair_table != nullptr ? pair_table->values : 1;
        bool pairs = values != 1 && pack_pair_panels(g.b, pc, kc, jc, je - jc, packed_b, values);
        if (!pairs) pack_b();
        const int64_t row_blocks = ceil_div(ie - io, kBlockRows);
        const int64_t row_block = ceil_div(ie - io, row_blocks);
        for (int64_t ic = io; ic < ie; ic += row_block) {
          const int64_t rows = min_of(row_block, ie - ic);
          const T* a = packed_a;
          int64_t lda = lda_packed;
          if (direct_a) {
            a = reinterpret_cast<const T*>(g.a.at(ic, pc));
            lda = g.a.row_stride;
          } else {
            const MatrixView view{g.a.at(ic, pc), g.a.dtype, g.a.row_stride, g.a.col_stride, g.a.item};
            if (pairs && !pack_rows_of_pairs(view, rows, kc, packed_a, lda_packed, values)) {
              pairs = false;
              pack_b();
            }
            if (!pairs) pack_matrix<T>(view, rows, kc, kc, packed_a, lda_packed);
          }
          const int64_t steps = pairs ? ceil_div(kc, values) : kc;
          const int64_t panels = ceil_div(rows, kMaxRows);
          for (int64_t j = jc; j < je; j += panel) {
            const int64_t cols = min_of(panel, je - j);
            const bool in_place = direct_b && cols == panel;
            const T* b = in_place ? source.in_place(pc, j) : direct_b ? packed_b : packed_b + (j - jc) * kc;
            const int64_t ldb = in_place ? source.row_stride() : panel;
            for (int64_t q = 0, r = 0; q < panels; ++q) {
              const int64_t height = rows / panels + (q < rows % panels);
              const int64_t i = ic + r;
              const T* rows_of_a = a + r * lda;
              r += height;
              if (out_keeps_partials) g.epilogue.prefetch(height, i, j);
              const MicroKernel<T> kernel = pairs ? pair_table->entries[cols <= kLanes<T> ? 0 : 1][height - 1]
                                                  : select_micro_kernel<T>(height, cols);
              if (direct_store && cols == panel) {
                kernel(steps, rows_of_a, lda, b, ldb, g.epilogue.out_row(i, j), g.epilogue.out.row_stride);
                continue;
              }
              T* partial = chunks == 1          ? tile
                           : out_keeps_partials ? g.epilogue.out_row(i, j)
                                                : workspace + (i - io) * round_up(width, panel) + (j - jc);
              const int64_t partial_stride = chunks == 1          ? 0
                                             : out_keeps_partials ? g.epilogue.out.row_stride
                                                                  : round_up(width, panel);
              kernel(steps, rows_of_a, lda, b, ldb, tile, panel);
              g.epilogue.apply(tile, height, cols, i, j, position, partial, partial_stride);
            }
          }
        }
      }
    }
  }
  return true;
}

template <class T>
bool multiply_block(const MatrixProduct<T>& g, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  return multiply_block(g, MatrixSource<T>{g.b}, i0, i1, j0, j1);
}

}  // namespace atalla::sim::ATALLA_ISA
