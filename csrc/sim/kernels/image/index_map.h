// SPDX-License-Identifier: BSD-3-Clause
//
// out[i0, i1, ...] = in[map0(i0), map1(i1), ...]: the walk that flip, roll, pads and nearest neighbours share. A map is
// a few pieces along which the index of in goes by a fixed step, or a table with an entry for each index of out.
#pragma once

#include <cstring>

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// Indices [begin, begin + count) of out take `first`, first + step, ... of in.
struct MapPiece {
  int64_t begin, count, first, step;
};
inline constexpr int kMaxPieces = 3;

// A dimension. `first` and `step` of its pieces are in elements of in.
struct MapDim {
  int64_t size;
  int64_t out_stride;
  int pieces;  // 0: by the table
  MapPiece piece[kMaxPieces];
  const int64_t* offset;  // of in, in elements, for each index of out

  bool linear() const { return pieces == 1; }
  int64_t at(int64_t i) const {
    if (pieces == 0) return offset[i];
    int p = 0;
    while (i >= piece[p].begin + piece[p].count) ++p;
    return piece[p].first + (i - piece[p].begin) * piece[p].step;
  }
};

class IndexMap {
 public:
  // Appends a dimension of `size` indices of out, which take those of a dimension of in; outermost first. The pieces
  // follow each other; empty ones are left out. False when an index lies outside [0, in_size); then `bad` holds it.
  bool add(int64_t size, int64_t out_stride, int64_t in_size, int64_t in_stride, const MapPiece* pieces, int count,
           int64_t* bad) {
    if (size == 0) return empty_ = true;
    MapDim d{size, out_stride, 0, {}, nullptr};
    for (int p = 0; p < count; ++p) {
      MapPiece piece = pieces[p];
      if (piece.count <= 0) continue;
      for (const int64_t x : {piece.first, piece.first + (piece.count - 1) * piece.step}) {
        if (x >= 0 && x < in_size) continue;
        *bad = x;
        return false;
      }
      piece.first *= in_stride, piece.step *= in_stride;
      d.piece[d.pieces++] = piece;
    }
    append(d);
    return true;
  }

  // The same, for a map f that is not piecewise linear. reserve() has made room for the entries of all such maps.
  template <class F>
  bool add_table(int64_t size, int64_t out_stride, int64_t in_size, int64_t in_stride, F&& f, int64_t* bad) {
    if (size == 0) return empty_ = true;
    int64_t* table = entries_.get() + used_;
    bool linear = true;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t x = f(i);
      if (x < 0 || x >= in_size) {
        *bad = x;
        return false;
      }
      table[i] = x * in_stride;
      linear = linear && (i < 2 || table[i] - table[i - 1] == table[1] - table[0]);
    }
    used_ += size;
    MapDim d{size, out_stride, 0, {}, table};
    if (linear) d.piece[d.pieces++] = {0, size, table[0], size > 1 ? table[1] - table[0] : 0};
    append(d);
    return true;
  }

  bool reserve(int64_t entries) { return entries_.allocate(entries > 0 ? entries : 1); }

  template <class E>
  void run(E* out, const E* in) {
    if (empty_) return;
    arrange();
    in += base_;
    const MapDim one{1, 1, 1, {{0, 1, 0, 0}}, nullptr};
    const MapDim inner = ndim_ > 0 ? dims_[--ndim_] : one, middle = ndim_ > 0 ? dims_[--ndim_] : one;
    int64_t rows = middle.size;
    for (int d = 0; d < ndim_; ++d) rows *= dims_[d].size;
    // Long rows are cut, so that one row too is work for every thread.
    const int64_t segments = (inner.size + kSegment - 1) / kSegment;
    const int64_t length = (inner.size + segments - 1) / segments;
    parallel_for(rows * segments, grain_for(length), [&](int64_t begin, int64_t end) {
      const MapDim along = inner;  // a copy: stores to out cannot change it
      for (int64_t t = begin, count; t < end; t += count) {
        const int64_t first = t % segments * length, last = min_of(first + length, along.size);
        const int64_t m = t / segments % middle.size;
        count = segments > 1 ? 1 : min_of(middle.size - m, end - t);
        int64_t linear = t / segments / middle.size;
        E* o = out;
        const E* i = in;
        for (int d = ndim_ - 1; d >= 0; linear /= dims_[d--].size) {
          const int64_t index = linear % dims_[d].size;
          o += index * dims_[d].out_stride, i += dims_[d].at(index);
        }
        MapPiece pieces[kMaxPieces];
        const int n = cut(along, first, last, pieces);
        for (int64_t r = m; r < m + count; ++r) {
          E* to = o + r * middle.out_stride;
          const E* from = i + middle.at(r);
          if (along.pieces == 0) {
            for (int64_t k = first; k < last; ++k) to[k * along.out_stride] = from[along.offset[k]];
          }
          for (int p = 0; p < n; ++p) {
            strided(to + pieces[p].begin, along.out_stride, from + pieces[p].first, pieces[p].step, pieces[p].count);
          }
        }
      }
    });
  }

 private:
  static constexpr int64_t kSegment = 1 << 16;  // elements

  void append(MapDim& d) {
    if (d.linear()) {
      base_ += d.piece[0].first;
      d.piece[0].first = 0;
    }
    if (d.size > 1) dims_[ndim_++] = d;
    else if (!d.linear()) base_ += d.at(0);
  }

  // Orders dimensions so that out is written front to back, and merges linear neighbours.
  void arrange() {
    for (int d = 1; d < ndim_; ++d) {
      const MapDim moved = dims_[d];
      int at = d;
      for (; at > 0 && dims_[at - 1].out_stride < moved.out_stride; --at) dims_[at] = dims_[at - 1];
      dims_[at] = moved;
    }
    int kept = 0;
    for (int d = 0; d < ndim_; ++d) {
      MapDim& last = dims_[kept > 0 ? kept - 1 : 0];
      const MapDim& next = dims_[d];
      if (kept > 0 && last.linear() && next.linear() && last.out_stride == next.out_stride * next.size &&
          last.piece[0].step == next.piece[0].step * next.size) {
        const int64_t size = last.size * next.size, step = next.piece[0].step;
        last = {size, next.out_stride, 1, {{0, size, 0, step}}, nullptr};
      } else {
        dims_[kept++] = next;
      }
    }
    ndim_ = kept;
  }

  template <class E>
  static void strided(E* out, int64_t out_stride, const E* in, int64_t step, int64_t n) {
    if (n == 1) {
      *out = *in;
    } else if (out_stride != 1) {
      for (int64_t i = 0; i < n; ++i) out[i * out_stride] = in[i * step];
    } else if (step == 1) {
      std::memcpy(out, in, static_cast<size_t>(n) * sizeof(E));
    } else if (step == -1) {
      for (int64_t i = 0; i < n; ++i) out[i] = in[-i];
    } else if (step == 0) {
      const E value = *in;
      for (int64_t i = 0; i < n; ++i) out[i] = value;
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = in[i * step];
    }
  }

  // The pieces of elements [first, last) of a row, with `begin` in elements of out; returns how many.
  static int cut(const MapDim& d, int64_t first, int64_t last, MapPiece* pieces) {
    int n = 0;
    for (int p = 0; p < d.pieces; ++p) {
      const MapPiece& piece = d.piece[p];
      const int64_t begin = max_of(piece.begin, first), end = min_of(piece.begin + piece.count, last);
      if (begin >= end) continue;
      pieces[n++] = {begin * d.out_stride, end - begin, piece.first + (begin - piece.begin) * piece.step, piece.step};
    }
    return n;
  }

  ScratchArray<int64_t> entries_;
  int64_t used_ = 0, base_ = 0;
  int ndim_ = 0;
  bool empty_ = false;
  MapDim dims_[ATALLA_MAX_DIMS];
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
