// SPDX-License-Identifier: BSD-3-Clause
//
// The number of elements, the bytes and the layout of an operand, read from its launch descriptor.
#pragma once

#include <initializer_list>

#include "sim/abi/counts.h"
#include "sim/abi/dtype.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

inline int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max_of(int64_t a, int64_t b) { return a < b ? b : a; }
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// The size of the innermost dimension, one for a scalar.
inline int64_t inner_size(const atalla_operand& o) { return o.ndim > 0 ? o.sizes[o.ndim - 1] : 1; }

// Elements; 1 of a 0-d operand.
inline int64_t element_count(const atalla_operand& o) {
  int64_t n = 1;
  for (int d = 0; d < o.ndim; ++d) n *= o.sizes[d];
  return n;
}

// Of sizes that no kernel has checked.
inline uint64_t counted_product(std::initializer_list<int64_t> factors) {
  uint64_t product = 1;
  for (const int64_t factor : factors) product = bounded_product(product, static_cast<uint64_t>(max_of(factor, 0)));
  return product;
}

// Element `offset` of an operand of I32 or I64.
inline int64_t index_at(const Launch& l, int operand, int64_t offset) {
  return l.operand(operand).dtype == ATALLA_I64 ? l.ptr<const int64_t>(operand)[offset]
                                                : l.ptr<const int32_t>(operand)[offset];
}

// An operand that the launch leaves out. (An empty tensor may have no address either, but it has sizes.)
inline bool is_absent(const atalla_operand& o) { return o.addr == 0 && !o.immediate && element_count(o) != 0; }

// Row-major contiguous (dimensions of size 1 do not matter).
inline bool is_contiguous(const atalla_operand& o) {
  int64_t expected = 1;
  for (int d = o.ndim - 1; d >= 0; --d) {
    if (o.sizes[d] != 1 && o.strides[d] != expected) return false;
    expected *= o.sizes[d];
  }
  return true;
}

// No output may start where an input does: another thread may still read what one overwrites. An input without elements
// has no place of its own, so its address says nothing.
inline atalla_status check_outputs_apart(const Launch& launch) {
  const atalla_launch_desc& d = launch.desc;
  for (int k = d.n_outputs; k < d.n_operands; ++k) {
    if (launch.data[k] == nullptr || element_count(launch.operand(k)) == 0) continue;
    for (int j = 0; j < d.n_outputs; ++j) {
      if (launch.data[j] != launch.data[k]) continue;
      return fail(launch, ATALLA_ERR_ARGUMENT, "output {} stands where operand {} does", j, k);
    }
  }
  return ATALLA_OK;
}

inline bool same_sizes(const atalla_operand& a, const atalla_operand& b) {
  if (a.ndim != b.ndim) return false;
  for (int d = 0; d < a.ndim; ++d) {
    if (a.sizes[d] != b.sizes[d]) return false;
  }
  return true;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
