// SPDX-License-Identifier: BSD-3-Clause
//
// out[i0, i1, ...] = in[map0(i0), map1(i1), ...]: the walk that flip, roll, pads and nearest neighbours share. A map is
// a table with an entry for each index of out; one that turns out to be a stride needs no table in the loops.
#pragma once

#include <cstring>

#include "dispatch.h"
#include "dispatch_check.h"
#include "dispatch_dims.h"
#include "table.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

struct MapDim {
  int64_t size;
  int64_t out_stride;
  int64_t in_stride;      // where linear
  const int64_t* offset;  // of in, in elements, for each index of out; null: linear
};

// A stretch of the innermost dimension whose elements of in lie `step` apart.
struct MapRun {
  int64_t begin, count, in, step;
};

class IndexMap {
 public:
  // Appends a dimension with the map f, of `size` indices of out, into [0, in_size) of a dimension of in. Outermost
  // first. False when an entry lies outside; then `bad` holds it.
  template <class F>
  bool add(int64_t size, int64_t out_stride, int64_t in_size, int64_t in_stride, F&& f, int64_t* bad) {
    if (size == 0) return empty_ = true;
    int64_t* table = entries_.get() + used_;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t x = f(i);
      if (x < 0 || x >= in_size) {
        *bad = x;
        return false;
      }
      table[i] = x * in_stride;
    }
    used_ += size;
    MapDim d{size, out_stride, size > 1 ? table[1] - table[0] : 0, nullptr};
    for (int64_t i = 1; i < size && d.offset == nullptr; ++i) {
      if (table[i] - table[i - 1] != d.in_stride) d.offset = table;
    }
    if (d.offset == nullptr) base_ += table[0];
    if (size > 1) dims_[ndim_++] = d;
    return true;
  }

  bool reserve(int64_t entries) { return entries_.allocate(entries > 0 ? entries : 1); }

  template <class E>
  bool run(E* out, const E* in) {
    if (empty_) return true;
    arrange();
    in += base_;
    const MapDim inner = ndim_ > 0 ? dims_[--ndim_] : MapDim{1, 1, 0, nullptr};
    Table<MapRun> runs;
    int64_t count = 0;
    if (inner.offset != nullptr && !find_runs(inner, runs, &count)) return false;
    int64_t rows = 1;
    for (int d = 0; d < ndim_; ++d) rows *= dims_[d].size;
    parallel_for(rows, grain_for(inner.size), [&](int64_t begin, int64_t end) {
      int64_t index[ATALLA_MAX_DIMS];
      int64_t linear = begin;
      for (int d = ndim_ - 1; d >= 0; --d) index[d] = linear % dims_[d].size, linear /= dims_[d].size;
      for (int64_t r = begin; r < end; ++r) {
        int64_t o = 0, i = 0;
        for (int d = 0; d < ndim_; ++d) {
          o += index[d] * dims_[d].out_stride;
          i += dims_[d].offset != nullptr ? dims_[d].offset[index[d]] : index[d] * dims_[d].in_stride;
        }
        row(inner, out + o, in + i, runs.get(), count);
        for (int d = ndim_ - 1; d >= 0 && ++index[d] == dims_[d].size; --d) index[d] = 0;
      }
    });
    return true;
  }

 private:
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
      if (kept > 0 && last.offset == nullptr && next.offset == nullptr &&
          last.out_stride == next.out_stride * next.size && last.in_stride == next.in_stride * next.size) {
        last = {last.size * next.size, next.out_stride, next.in_stride, nullptr};
      } else {
        dims_[kept++] = next;
      }
    }
    ndim_ = kept;
  }

  static bool find_runs(const MapDim& d, Table<MapRun>& runs, int64_t* count) {
    int64_t n = 1;
    for (int64_t i = 2; i < d.size; ++i) n += d.offset[i] - d.offset[i - 1] != d.offset[i - 1] - d.offset[i - 2];
    constexpr int64_t kShort = 8;  // elements a run below which a gather by the table is faster
    if (n * kShort > d.size) return true;
    if (!runs.allocate(n + 1)) return false;
    for (int64_t i = 0; i < d.size;) {
      int64_t end = i + 1;
      const int64_t step = end < d.size ? d.offset[end] - d.offset[i] : 0;
      while (end < d.size && d.offset[end] - d.offset[end - 1] == step) ++end;
      runs[(*count)++] = {i, end - i, d.offset[i], step};
      i = end;
    }
    return true;
  }

  template <class E>
  static void strided(E* out, int64_t out_stride, const E* in, int64_t step, int64_t n) {
    if (out_stride != 1) {
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

  template <class E>
  static void row(const MapDim& d, E* out, const E* in, const MapRun* runs, int64_t count) {
    if (d.offset == nullptr) {
      strided(out, d.out_stride, in, d.in_stride, d.size);
    } else if (count > 0) {
      for (int64_t r = 0; r < count; ++r) {
        strided(out + runs[r].begin * d.out_stride, d.out_stride, in + runs[r].in, runs[r].step, runs[r].count);
      }
    } else if (d.out_stride == 1) {
      for (int64_t i = 0; i < d.size; ++i) out[i] = in[d.offset[i]];
    } else {
      for (int64_t i = 0; i < d.size; ++i) out[i * d.out_stride] = in[d.offset[i]];
    }
  }

  Table<int64_t> entries_;
  int64_t used_ = 0, base_ = 0;
  int ndim_ = 0;
  bool empty_ = false;
  MapDim dims_[ATALLA_MAX_DIMS];
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
