// SPDX-License-Identifier: BSD-3-Clause
//
// Writing elements to places that index operands give: the walk that scatter and index_put share.
//
// Two elements can meet in one destination only if they agree in every dimension that out itself walks along ("own"
// dimensions), and differ in one that only the indices place ("shared"). So the own dimensions are what threads divide
// among them, and each destination sees its elements in the row-major order of the shared ones: the result does not
// depend on the threads.
#pragma once

#include "index.h"
#include "scatter_combine.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Operand 0 is out (stride 0 along shared dimensions), 1 src, 2 + j index j.
struct WriteWalk {
  using Space = Dims<ATALLA_MAX_OPERANDS>;
  Space own, shared;
  bool inner_shared = false;  // the innermost dimension is a shared one
  int indices = 0;
  IndexOperand index[kMaxIndices];

  void add(int64_t size, int64_t out_stride, int64_t src_stride, const int64_t* index_strides, bool is_shared) {
    is_shared = is_shared || out_stride == 0;  // out laid over itself
    int64_t s[ATALLA_MAX_OPERANDS] = {is_shared ? 0 : out_stride, src_stride};
    for (int j = 0; index_strides && j < indices; ++j) s[2 + j] = index_strides[j];
    if (size != 1) inner_shared = is_shared;
    (is_shared ? shared : own).add_array(size, s, true);
  }
};

// A run with one index operand.
template <class S, class I, class Op>
void write_run(const Op& op, const IndexOperand& index, S* out, int64_t so, const S* src, int64_t ss, const I* x,
               int64_t sx, int64_t n) {
  const int64_t size = index.size, stride = index.in_stride;
  const auto place = [&](I i) { return (i < 0 ? static_cast<int64_t>(i) + size : static_cast<int64_t>(i)) * stride; };
  if (sx == 0) {
    S* o = out + place(*x);
    if (so == 1 && ss == 1) {
      for (int64_t i = 0; i < n; ++i) op(o[i], src[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) op(o[i * so], src[i * ss]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) op(out[i * so + place(x[i * sx])], src[i * ss]);
  }
}

// Runs whose elements begin at `offsets` and go on by the strides `s`.
template <class S, class Op>
struct RunWriter {
  const WriteWalk& w;
  const Op& op;
  S* out;
  const S* src;

  void operator()(const int64_t* offsets, const int64_t* s, int64_t n) const {
    if (w.indices == 1) {
      const IndexOperand& x = w.index[0];
      if (x.wide) {
        write_run(op, x, out + offsets[0], s[0], src + offsets[1], s[1],
                  static_cast<const int64_t*>(x.data) + offsets[2], s[2], n);
      } else {
        write_run(op, x, out + offsets[0], s[0], src + offsets[1], s[1],
                  static_cast<const int32_t*>(x.data) + offsets[2], s[2], n);
      }
      return;
    }
    int64_t at_element[ATALLA_MAX_OPERANDS];
    const int used = 2 + w.indices;
    for (int k = 0; k < used; ++k) at_element[k] = offsets[k];
    for (int64_t i = 0; i < n; ++i) {
      int64_t o = at_element[0];
      for (int j = 0; j < w.indices; ++j) o += w.index[j].read(at_element[2 + j]) * w.index[j].in_stride;
      op(out[o], src[at_element[1]]);
      for (int k = 0; k < used; ++k) at_element[k] += s[k];
    }
  }
};

template <class S, class Op>
void run_write_walk(const WriteWalk& w, const Op& op, S* out, const S* src) {
  const RunWriter<S, Op> write{w, op, out, src};
  WriteWalk::Space own = w.own, shared = w.shared;
  int64_t s[ATALLA_MAX_OPERANDS];
  const bool inner_shared = w.inner_shared || own.ndim == 0;
  const int64_t inner = inner_shared ? shared.pop(s) : own.pop(s);
  // An inner own dimension is cut into columns where the others do not give every thread something to do.
  const int64_t rows = own.count(), repeats = shared.count();
  int64_t piece = inner;
  if (!inner_shared) {
    piece = (inner * rows / 8 + 15) / 16 * 16;
    piece = piece < 32 ? 32 : piece > inner ? inner : piece;
  }
  const int64_t pieces = (inner + piece - 1) / piece;
  parallel_for(rows * pieces, grain_for(piece * repeats), [&](int64_t begin, int64_t end) {
    Cursor<ATALLA_MAX_OPERANDS> at_row(own, begin / pieces);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t % pieces * piece, n = inner - first < piece ? inner - first : piece;
      Cursor<ATALLA_MAX_OPERANDS> at_repeat(shared, 0);
      for (int64_t r = 0; r < repeats; ++r, at_repeat.next()) {
        int64_t offsets[ATALLA_MAX_OPERANDS];
        for (int k = 0; k < 2 + w.indices; ++k) {
          offsets[k] = at_row.offsets[k] + at_repeat.offsets[k] + first * s[k];
        }
        write(offsets, s, n);
      }
      if (t % pieces == pieces - 1) at_row.next();
    }
  });
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
