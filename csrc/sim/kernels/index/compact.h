// SPDX-License-Identifier: BSD-3-Clause
//
// Finding the true elements of a mask in row-major order. A first pass counts them by blocks of fixed length, so that a
// second pass knows where each block's output begins and blocks are independent of each other.
#pragma once

#include "sim/kernels/base/common.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kBlock =
    4096;  // elements a block; also in csrc/aten/kernels/index/select.cpp, which sizes the counts

template <class M>
inline bool is_true(M x) {
  return convert<BoolByte>(x).byte != 0;
}

// The positions, from `first` on, of the true ones among n elements. Without a branch: a random mask has no pattern.
template <class M>
inline int list_true(const M* mask, int64_t stride, int n, int32_t first, int32_t* list) {
  int found = 0;
  for (int i = 0; i < n; ++i) {
    list[found] = first + i;
    found += is_true(mask[i * stride]);
  }
  return found;
}

template <class M>
inline int64_t count_true(const M* mask, int64_t stride, int64_t n) {
  int64_t count = 0;
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) count += is_true(mask[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) count += is_true(mask[i * stride]);
  }
  return count;
}

inline int64_t blocks_of(int64_t n) { return (n + kBlock - 1) / kBlock; }

// Runs f(begin, end, where the block's output begins) for every block of n elements. `starts` is what compact.count
// wrote.
template <class F>
void for_each_block(int64_t n, const int64_t* starts, F&& f) {
  parallel_for(blocks_of(n), 4, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      const int64_t begin = b * kBlock, end = n - begin < kBlock ? n : begin + kBlock;
      f(begin, end, starts[b]);
    }
  });
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
