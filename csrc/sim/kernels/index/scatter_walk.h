// SPDX-License-Identifier: BSD-3-Clause
//
// Writing elements to places that index operands give: the walk that scatter and index_put share.
//
// Two elements can have one destination only if they agree in every dimension that `out` itself walks along ("own"
// dimensions). They then differ in a dimension in which an index gives the position ("shared"). Threads divide the own
// dimensions or the destinations among them, and each destination receives its elements in the row-major order of the
// shared ones. The result therefore does not depend on the threads.
#pragma once

#include "sim/kernels/index/index.h"
#include "sim/kernels/index/scatter_combine.h"

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

constexpr int64_t kPlaced = 256;  // elements whose places are worked out at a time

// Where the elements of a run go: place[i], in elements from out's first, of elements [first, first + n) of it.
inline void place_elements(const WriteWalk& w, const int64_t* offsets, const int64_t* s, int64_t first, int64_t n,
                           int64_t* place) {
  for (int64_t i = 0; i < n; ++i) place[i] = offsets[0] + (first + i) * s[0];
  for (int j = 0; j < w.indices; ++j) {
    const IndexOperand& x = w.index[j];
    const int64_t at = offsets[2 + j] + first * s[2 + j], step = s[2 + j];
    if (x.wide) {
      const int64_t* index = static_cast<const int64_t*>(x.data) + at;
      for (int64_t i = 0; i < n; ++i) place[i] += (index[i * step] + (index[i * step] < 0 ? x.size : 0)) * x.in_stride;
    } else {
      const int32_t* index = static_cast<const int32_t*>(x.data) + at;
      for (int64_t i = 0; i < n; ++i) place[i] += (index[i * step] + (index[i * step] < 0 ? x.size : 0)) * x.in_stride;
    }
  }
}

// The loops of one combination and element type: all that is compiled for each of them. With `place`, element i goes
// to out[place[i]], else to out[i * so].
using WriteLoop = void (*)(const void* op, void* out, int64_t so, const int64_t* place, const void* src, int64_t ss,
                           int64_t n);

template <class S, class Op>
void write_loop(const void* op_data, void* out_data, int64_t so, const int64_t* place, const void* src_data, int64_t ss,
                int64_t n) {
  const Op op = *static_cast<const Op*>(op_data);
  S* out = static_cast<S*>(out_data);
  const S* src = static_cast<const S*>(src_data);
  if (place) {
    for (int64_t i = 0; i < n; ++i) op(out[place[i]], src[i * ss]);
  } else if (so == 1 && ss == 1) {
    if constexpr (std::is_same_v<Op, AssignOp<S>>) {
      std::memcpy(out, src, static_cast<size_t>(n) * sizeof(S));
    } else {
      for (int64_t i = 0; i < n; ++i) op(out[i], src[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) op(out[i * so], src[i * ss]);
  }
}

struct RunWriter {
  const WriteWalk& w;
  WriteLoop loop;
  const void* op;
  unsigned char* out;
  int64_t size;  // bytes an element
  const unsigned char* src;
  atalla_dtype src_dtype;
  bool widens;  // src, of a 16-bit dtype, to the F32 of out

  // Elements [first, first + n) of a run of src that begins at `source`, n up to kPlaced: f(elements, stride).
  template <class F>
  void read(int64_t source, int64_t stride, int64_t first, int64_t n, F&& f) const {
    if (!widens) return f(src + (source + first * stride) * size, stride);
    float wide[kPlaced];
    load_run(src + (source + first * stride) * 2, src_dtype, stride, n, wide);
    f(wide, 1);
  }

  // A run in which no index changes.
  void row(int64_t place, int64_t source, const int64_t* s, int64_t n) const {
    const int64_t step = widens ? kPlaced : n;
    for (int64_t i = 0; i < n; i += step) {
      const int64_t m = min_of(n - i, step);
      read(source, s[1], i, m, [&](const void* from, int64_t stride) {
        loop(op, out + (place + i * s[0]) * size, s[0], nullptr, from, stride, m);
      });
    }
  }

  // A run whose elements begin at `offsets` and go on by the strides `s`.
  void operator()(const int64_t* offsets, const int64_t* s, int64_t n) const {
    bool fixed = true;  // the indices stay along the run
    for (int j = 0; j < w.indices; ++j) fixed = fixed && s[2 + j] == 0;
    int64_t place[kPlaced];
    if (fixed) {
      place_elements(w, offsets, s, 0, 1, place);
      return row(place[0], offsets[1], s, n);
    }
    for (int64_t i = 0; i < n; i += kPlaced) {
      const int64_t m = n - i < kPlaced ? n - i : kPlaced;
      place_elements(w, offsets, s, i, m, place);
      read(offsets[1], s[1], i, m, [&](const void* from, int64_t stride) { loop(op, out, 0, place, from, stride, m); });
    }
  }
};

// Rows whose destinations are close together, as ranges of rows that are in the order of the walk.
class RowsByPlace {
 public:
  struct Row {
    int64_t place, source;  // first elements of out and src
  };
  static constexpr int64_t kRanges = 64;

  // False if a range would hold too large a part of the rows, or if there is no memory.
  bool build(const WriteWalk& w, const WriteWalk::Space& shared) {
    const int64_t count = shared.count();
    ScratchArray<Row> found(count);
    if (!found || !rows_.allocate(count)) return false;
    constexpr int64_t kNone[ATALLA_MAX_OPERANDS] = {};
    Cursor<ATALLA_MAX_OPERANDS> at(shared, 0);
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t r = 0; r < count; ++r, at.next()) {
      int64_t place;
      place_elements(w, at.offsets, kNone, 0, 1, &place);
      found[r] = {place, at.offsets[1]};
      least = min_of(least, place), most = max_of(most, place);
    }
    int shift = 0;
    while ((most - least) >> shift >= kRanges) ++shift;
    for (int64_t r = 0; r < count; ++r) ++first_[((found[r].place - least) >> shift) + 1];
    int64_t largest = 0;
    for (int64_t i = 1; i <= kRanges; ++i) largest = max_of(largest, first_[i]), first_[i] += first_[i - 1];
    if (largest > count / 8) return false;
    int64_t next[kRanges];
    std::memcpy(next, first_, sizeof next);
    for (int64_t r = 0; r < count; ++r) rows_[next[(found[r].place - least) >> shift]++] = found[r];
    return true;
  }

  // f(row) for the rows of ranges [begin, end).
  template <class F>
  void each(int64_t begin, int64_t end, F&& f) const {
    for (int64_t r = first_[begin]; r < first_[end]; ++r) f(rows_[r]);
  }

 private:
  ScratchArray<Row> rows_;
  int64_t first_[kRanges + 1] = {};
};

// Divides destinations among threads, which each write whole rows. False if it does not pay.
inline bool run_rows_by_place(const RunWriter& write, const WriteWalk::Space& shared, const int64_t* s, int64_t inner) {
  constexpr int64_t kRowElements = 64;  // shorter rows take less time than finding their order
  for (int j = 0; j < write.w.indices; ++j) {
    if (s[2 + j] != 0) return false;
  }
  const int64_t total = inner * shared.count();
  RowsByPlace rows;
  if (inner < kRowElements || total <= grain_for(1) || !rows.build(write.w, shared)) return false;
  parallel_for(RowsByPlace::kRanges, grain_for(total / RowsByPlace::kRanges), [&](int64_t begin, int64_t end) {
    rows.each(begin, end, [&](const RowsByPlace::Row& row) { write.row(row.place, row.source, s, inner); });
  });
  return true;
}

inline void run_write_walk(const WriteWalk& w, const RunWriter& write) {
  WriteWalk::Space own = w.own, shared = w.shared;
  int64_t s[ATALLA_MAX_OPERANDS];
  const bool inner_shared = w.inner_shared || own.ndim == 0;
  const int64_t inner = inner_shared ? shared.pop(s) : own.pop(s);
  // An inner own dimension is cut into columns where the others do not give every thread something to do.
  const int64_t rows = own.count(), repeats = shared.count();
  if (!inner_shared && rows == 1 && run_rows_by_place(write, shared, s, inner)) return;
  int64_t piece = inner;
  if (!inner_shared) {
    constexpr int64_t kWideBytes = 2048;  // narrower columns waste what the host reads ahead
    const int64_t least = max_of(min_of(kWideBytes / write.size, ceil_div(inner, 2)), 32);
    piece = min_of(round_up(max_of(inner * rows / 8, least), 16), inner);
  }
  const int64_t pieces = (inner + piece - 1) / piece;
  parallel_for(rows * pieces, grain_for(piece * repeats), [&](int64_t begin, int64_t end) {
    Cursor<ATALLA_MAX_OPERANDS> at_row(own, begin / pieces);
    for (int64_t t = begin, count; t < end; t += count) {
      const int64_t first = t % pieces * piece;
      count = min_of(pieces - t % pieces, end - t);  // adjacent pieces are written as one
      const int64_t n = min_of(count * piece, inner - first);
      Cursor<ATALLA_MAX_OPERANDS> at_repeat(shared, 0);
      for (int64_t r = 0; r < repeats; ++r, at_repeat.next()) {
        int64_t offsets[ATALLA_MAX_OPERANDS];
        for (int k = 0; k < 2 + w.indices; ++k) {
          offsets[k] = at_row.offsets[k] + at_repeat.offsets[k] + first * s[k];
        }
        write(offsets, s, n);
      }
      if (first + n == inner) at_row.next();
    }
  });
}

// Operand 1 has the dtype of operand 0, or a 16-bit float where that is F32.
template <class S, class Op>
void run_write_walk(const Launch& l, const WriteWalk& w, const Op& op) {
  const atalla_dtype src_dtype = l.operand(ScatterOperands::kSource).dtype;
  run_write_walk(w, RunWriter{w, write_loop<S, Op>, &op, l.ptr<unsigned char>(ScatterOperands::kOut), sizeof(S),
                              l.ptr<const unsigned char>(ScatterOperands::kSource), src_dtype,
                              src_dtype != l.operand(ScatterOperands::kOut).dtype});
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
