// SPDX-License-Identifier: BSD-3-Clause
//
// Copying elements that index operands address: the walk that index_select, gather and index share.
#pragma once

#include <cstring>

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int kMaxIndices = ATALLA_MAX_OPERANDS - IndexOperands::kIndices;
static_assert(IndexOperands::kIndices == IndexPutOperands::kIndices);

// One index operand, I32 or I64, and the dimension of `in` that it walks along.
struct IndexOperand {
  const void* data;
  bool wide;          // I64
  int64_t in_stride;  // of the indexed dimension, elements of in
  int64_t size;       // of the indexed dimension
  bool from_end;      // negative values count from the end

  int64_t read(int64_t offset) const {
    const int64_t i = wide ? static_cast<const int64_t*>(data)[offset] : static_cast<const int32_t*>(data)[offset];
    return i < 0 ? i + size : i;
  }
};

// Index operand `operand`, of dimension `dim` of `indexed`; a 0-d tensor counts as 1-d.
inline IndexOperand index_operand(const Launch& l, int operand, const atalla_operand& indexed, int dim, bool from_end) {
  return {l.data[operand], l.operand(operand).dtype == ATALLA_I64, indexed.ndim ? indexed.strides[dim] : 0,
          indexed.ndim ? indexed.sizes[dim] : 1, from_end};
}

// The iteration space is that of out. Operand 0 is out, 1 in (stride 0 along what the indices give), 2 + j index j.
struct IndexWalk {
  Dims<ATALLA_MAX_OPERANDS> dims;
  int indices = 0;
  IndexOperand index[kMaxIndices];

  int64_t in_offset(const int64_t* offsets) const {
    int64_t o = offsets[1];
    for (int j = 0; j < indices; ++j) o += index[j].read(offsets[2 + j]) * index[j].in_stride;
    return o;
  }
};

template <class E>
inline void copy_row(E* out, int64_t out_stride, const E* in, int64_t in_stride, int64_t n) {
  if (out_stride == 1 && in_stride == 1) {
    std::memcpy(out, in, static_cast<size_t>(n) * sizeof(E));
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * out_stride] = in[i * in_stride];
  }
}

// `rows` rows from the cursor on, of `n` elements each. Rows lie anywhere, so the host cannot tell which one comes
// next.
template <class E, int K>
void copy_rows(const IndexWalk& w, Cursor<K>& at_row, int64_t rows, E* out, int64_t out_stride, const E* in,
               int64_t in_stride, int64_t n) {
  constexpr int64_t kAhead = 512, kLine = 64;  // bytes
  const int64_t ahead = in_stride == 1 ? min_of(n * static_cast<int64_t>(sizeof(E)), kAhead) : 0;
  const E* from = in + w.in_offset(at_row.offsets);
  for (int64_t r = 0; r < rows; ++r) {
    E* const to = out + at_row.offsets[0];
    const E* const row = from;
    at_row.next();
    if (r + 1 < rows) {
      from = in + w.in_offset(at_row.offsets);
      for (int64_t at = 0; at < ahead; at += kLine) __builtin_prefetch(reinterpret_cast<const char*>(from) + at);
    }
    copy_row(to, out_stride, row, in_stride, n);
  }
}

template <int K, class E>
void walk_operands(const IndexWalk& w, E* out, const E* in) {
  Dims<K> outer(w.dims);
  int64_t s[K];
  const int64_t inner = outer.pop(s);
  bool row = true;  // no index changes along the innermost dimension
  for (int j = 0; j < w.indices; ++j) row = row && s[2 + j] == 0;
  parallel_for(outer.count(), grain_for(inner), [&](int64_t begin, int64_t end) {
    Cursor<K> at_run(outer, begin);
    if (row) return copy_rows(w, at_run, end - begin, out, s[0], in, s[1], inner);
    for (int64_t r = begin; r < end; ++r, at_run.next()) {
      E* o = out + at_run.offsets[0];
      if (w.indices == 1) {
        const IndexOperand x = w.index[0];  // a copy: stores to out cannot change it
        const E* base = in + at_run.offsets[1];
        const int64_t first = at_run.offsets[2];
        for (int64_t i = 0; i < inner; ++i) {
          o[i * s[0]] = base[i * s[1] + x.read(first + i * s[2]) * x.in_stride];
        }
      } else {
        int64_t offsets[K];
        std::memcpy(offsets, at_run.offsets, sizeof offsets);
        for (int64_t i = 0; i < inner; ++i) {
          o[i * s[0]] = in[w.in_offset(offsets)];
          for (int k = 1; k < 2 + w.indices; ++k) offsets[k] += s[k];
        }
      }
    }
  });
}

template <class E>
void run_index_walk(const IndexWalk& w, E* out, const E* in) {
  w.indices == 1 ? walk_operands<3>(w, out, in) : walk_operands<ATALLA_MAX_OPERANDS>(w, out, in);
}

inline atalla_status check_size(const Launch& l, int operand, int dim, int64_t given, int64_t expected) {
  if (given == expected) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "operand {} has size {} in dimension {}, expected {}", operand, given, dim,
              expected);
}

inline atalla_status check_rank(const Launch& l, int operand, int given, int expected) {
  if (given == expected) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "operand {} has {} dimensions, expected {}", operand, given, expected);
}

// `count` index operands, the last ones of the launch, of dimensions of `indexed` from `first` on.
inline atalla_status check_indexed_dims(const Launch& l, const atalla_operand& indexed, int64_t count, int64_t first) {
  if (count != l.desc.n_operands - IndexOperands::kIndices) {
    return fail(l, ATALLA_ERR_ARGUMENT, "{} index operands are announced, the descriptor has {}", count,
                l.desc.n_operands - IndexOperands::kIndices);
  }
  if (first >= 0 && first <= indexed.ndim && first + count <= indexed.ndim) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "{} indexed dimensions from {} on, of a tensor of {} dimensions", count, first,
              indexed.ndim);
}

// Whether every value of a run lies in [low, high).
template <class I>
inline bool all_within(const I* x, int64_t stride, int64_t n, int64_t low, int64_t high) {
  I least = x[0], most = x[0];
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) {
      least = x[i] < least ? x[i] : least;
      most = x[i] > most ? x[i] : most;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const I v = x[i * stride];
      least = v < least ? v : least;
      most = v > most ? v : most;
    }
  }
  return least >= low && most < high;
}

// Checks the values of index operand `operand`; broadcast dimensions are looked at once. `dim` is only for the text.
inline atalla_status check_index_values(const Launch& l, int operand, const IndexOperand& x, int dim) {
  const atalla_operand& o = l.operand(operand);
  if (element_count(o) == 0) return ATALLA_OK;
  const int64_t low = x.from_end ? -x.size : 0, high = x.size;
  Dims<1> dims;
  for (int d = 0; d < o.ndim; ++d) {
    if (o.strides[d] != 0) dims.add(o.sizes[d], o.strides[d]);
  }
  Dims<1> outer = dims;
  int64_t stride;
  const int64_t inner = outer.pop(&stride);
  constexpr int64_t kPiece = 65536;
  const int64_t pieces = (inner + kPiece - 1) / kPiece, tasks = outer.count() * pieces;
  const bool valid = parallel_try(tasks, grain_for(min_of(inner, kPiece)), [&](int64_t begin, int64_t end) {
    Cursor<1> at_run(outer, begin / pieces);
    bool good = true;
    for (int64_t t = begin; t < end && good; ++t) {
      const int64_t i = t % pieces * kPiece, n = inner - i < kPiece ? inner - i : kPiece;
      const int64_t first = at_run.offsets[0] + i * stride;
      good = x.wide ? all_within(static_cast<const int64_t*>(x.data) + first, stride, n, low, high)
                    : all_within(static_cast<const int32_t*>(x.data) + first, stride, n, low, high);
      if (t % pieces == pieces - 1) at_run.next();
    }
    return good;
  });
  if (valid) return ATALLA_OK;

  Dims<1> all;
  for (int d = 0; d < o.ndim; ++d) {
    const int64_t s = o.strides[d];
    all.add_array(o.sizes[d], &s, false);
  }
  Cursor<1> at_value(all, 0);
  int64_t position = 0, value = 0;
  for (const int64_t n = all.count(); position < n; ++position, at_value.next()) {
    const int64_t i = at_value.offsets[0];
    value = x.wide ? static_cast<const int64_t*>(x.data)[i] : static_cast<const int32_t*>(x.data)[i];
    if (value < low || value >= high) break;
  }
  char where[ATALLA_MAX_DIMS * 22 + 4] = "";
  int used = 0;
  int64_t inside = position, coordinate[ATALLA_MAX_DIMS];
  for (int d = o.ndim - 1; d >= 0; --d) coordinate[d] = inside % o.sizes[d], inside /= o.sizes[d];
  for (int d = 0; d < o.ndim; ++d) {
    used += __builtin_snprintf(where + used, sizeof where - static_cast<size_t>(used), "%s%lld", d ? ", " : "",
                               static_cast<long long>(coordinate[d]));
  }
  return fail(l, ATALLA_ERR_FAULT_INDEX,
              "index {} at position [{}] of operand {} is out of bounds [{}, {}) for dimension {}", value, where,
              operand, low, high, dim);
}

// Walks the dimensions of operand `selected`, in which the `count` dimensions of `tensor` from `first` on have given
// way to the shape of the indices: out of index, the source of index_put. add(size, its stride, the tensor's stride or
// 0, strides of the indices, whether the indices have this dimension). The values of indices are not looked at.
template <class Walk, class Add>
atalla_status walk_indexed(const Launch& l, Walk& w, const atalla_operand& tensor, int selected, int64_t count,
                           int64_t first, bool from_end, Add&& add) {
  constexpr int kIndices = IndexOperands::kIndices;
  ATALLA_CHECK(check_indexed_dims(l, tensor, count, first));
  const atalla_operand &part = l.operand(selected), &x = l.operand(kIndices);
  const int begin = static_cast<int>(first), rank = x.ndim, indexed_dims = static_cast<int>(count);
  ATALLA_CHECK(check_rank(l, selected, part.ndim, tensor.ndim - indexed_dims + rank));
  w.indices = indexed_dims;
  for (int j = 0; j < indexed_dims; ++j) {
    ATALLA_CHECK(check_same_sizes(l, kIndices, kIndices + j));
    w.index[j] = index_operand(l, kIndices + j, tensor, begin + j, from_end);
  }
  for (int d = 0; d < part.ndim; ++d) {
    const bool indexed = d >= begin && d < begin + rank;
    const int own = d < begin ? d : d - rank + indexed_dims;
    ATALLA_CHECK(check_size(l, selected, d, part.sizes[d], indexed ? x.sizes[d - begin] : tensor.sizes[own]));
    int64_t strides[kMaxIndices] = {};
    for (int j = 0; indexed && j < indexed_dims; ++j) strides[j] = l.operand(kIndices + j).strides[d - begin];
    add(part.sizes[d], part.strides[d], indexed ? 0 : tensor.strides[own], strides, indexed);
  }
  return ATALLA_OK;
}

// The values of all index operands of such a walk.
template <class Walk>
atalla_status check_indices(const Launch& l, const Walk& w, int64_t first) {
  for (int j = 0; j < w.indices; ++j) {
    ATALLA_CHECK(check_index_values(l, IndexOperands::kIndices + j, w.index[j], static_cast<int>(first) + j));
  }
  return ATALLA_OK;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
