// SPDX-License-Identifier: BSD-3-Clause
//
// Walks several operands over one iteration space: dimensions collected, merged where every operand allows it, then
// visited in row-major order with one offset an operand.
#pragma once

#include "sim/kernels/base/convert_types.h"
#include "sim/kernels/base/kernel.h"
#include "sim/kernels/base/operand.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

// K operands; strides[k] and the cursor's offsets[k] are in elements of operand k.
template <int K>
struct Dims {
  int ndim = 0;
  int64_t sizes[ATALLA_MAX_DIMS];
  int64_t strides[K][ATALLA_MAX_DIMS];

  Dims() = default;
  // The first K operands of a wider space.
  template <int Wider>
    requires(Wider > K)
  explicit Dims(const Dims<Wider>& all) : ndim(all.ndim) {
    for (int d = 0; d < ndim; ++d) sizes[d] = all.sizes[d];
    for (int k = 0; k < K; ++k)
      for (int d = 0; d < ndim; ++d) strides[k][d] = all.strides[k][d];
  }

  // Appends a dimension inside all the present ones. One of size 1 is dropped; one that continues the previous one in
  // every operand is merged with it (add_array: only if `merge`).
  template <class... S>
  void add(int64_t size, S... s) {
    static_assert(sizeof...(S) == K);
    const int64_t all[K] = {s...};
    add_array(size, all, true);
  }

  void add_array(int64_t size, const int64_t* s, bool merge) {
    if (size == 1) return;
    if (merge && ndim > 0) {
      bool continues = true;
      for (int k = 0; k < K; ++k) continues = continues && strides[k][ndim - 1] == s[k] * size;
      if (continues) {
        sizes[ndim - 1] *= size;
        for (int k = 0; k < K; ++k) strides[k][ndim - 1] = s[k];
        return;
      }
    }
    sizes[ndim] = size;
    for (int k = 0; k < K; ++k) strides[k][ndim] = s[k];
    ++ndim;
  }

  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= sizes[d];
    return n;
  }

  // Removes the innermost dimension; a 0-d space gives a dimension of size 1 and strides 0.
  int64_t pop(int64_t* s) {
    if (ndim == 0) {
      for (int k = 0; k < K; ++k) s[k] = 0;
      return 1;
    }
    --ndim;
    for (int k = 0; k < K; ++k) s[k] = strides[k][ndim];
    return sizes[ndim];
  }
};

// A position in a non-empty Dims.
template <int K>
struct Cursor {
  const Dims<K>& dims;
  int64_t index[ATALLA_MAX_DIMS];
  int64_t offsets[K];

  Cursor(const Dims<K>& d, int64_t linear) : dims(d) {
    for (int k = 0; k < K; ++k) offsets[k] = 0;
    for (int i = d.ndim - 1; i >= 0; --i) {
      index[i] = linear % d.sizes[i];
      linear /= d.sizes[i];
      for (int k = 0; k < K; ++k) offsets[k] += index[i] * d.strides[k][i];
    }
  }

  void next() {
    for (int i = dims.ndim - 1; i >= 0; --i) {
      if (++index[i] < dims.sizes[i]) {
        for (int k = 0; k < K; ++k) offsets[k] += dims.strides[k][i];
        return;
      }
      index[i] = 0;
      for (int k = 0; k < K; ++k) offsets[k] -= (dims.sizes[i] - 1) * dims.strides[k][i];
    }
  }
};

// The elements of a space in row-major order, as runs along its innermost dimension.
template <int K>
struct Runs {
  Dims<K> outer;
  int64_t strides[K];
  int64_t inner;

  explicit Runs(const Dims<K>& dims) : outer(dims), inner(outer.pop(strides)) {}

  // f(offsets, n) for the elements [begin, end), which are not none.
  template <class F>
  void each(int64_t begin, int64_t end, F&& f) const {
    Cursor<K> at_row(outer, begin / inner);
    for (int64_t at = begin % inner; begin < end; at = 0) {
      const int64_t n = min_of(inner - at, end - begin);
      int64_t offsets[K];
      for (int k = 0; k < K; ++k) offsets[k] = at_row.offsets[k] + at * strides[k];
      f(offsets, n);
      begin += n;
      if (begin < end) at_row.next();
    }
  }
};

// body(cursor, first, count) for parts of at most `part` of `length` elements at each position of `dims`, in parallel.
template <int K, class F>
void for_each_part(const Dims<K>& dims, int64_t length, int64_t part, int64_t grain, F&& body) {
  const int64_t parts = ceil_div(length, part);
  parallel_for(dims.count() * parts, grain, [&](int64_t begin, int64_t end) {
    Cursor<K> at_row(dims, begin / parts);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % parts * part;
      body(at_row, first, min_of(part, length - first));
      if (i % parts == parts - 1) at_row.next();
    }
  });
}

// Rows a task should have, so that it is worth handing to another thread.
inline int64_t grain_for(int64_t elements_per_row) {
  constexpr int64_t kElementsPerTask = 16384;
  return elements_per_row >= kElementsPerTask ? 1 : kElementsPerTask / (elements_per_row > 0 ? elements_per_row : 1);
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
