// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "runtime/loadable/file/view.h"
#include "sim/abi/atalla.h"
#include "sim/abi/dtype.h"

namespace atalla::runtime::loadable {

__extension__ typedef __int128 Int128;

inline constexpr int64_t kMaxElements = int64_t{1} << 47;  // exclusive bound of sizes, absolute strides and elements

// Bytes of one element; 0 for a code that is no dtype.
constexpr uint32_t element_bytes(uint8_t dtype) noexcept { return sim::dtype_size(dtype); }

using sim::dtype_name;

// Sizes and strides read out of the pool.
struct Shape {
  int ndim = 0;
  int64_t sizes[ATALLA_MAX_DIMS] = {};
  int64_t strides[ATALLA_MAX_DIMS] = {};

  bool empty() const noexcept {
    for (int d = 0; d < ndim; ++d)
      if (sizes[d] == 0) return true;
    return false;
  }
  // Where a tensor at this byte offset of its storage is addressed: one without elements may have an offset behind the
  // storage, and even behind the DRAM.
  uint64_t placed(uint64_t byte_offset) const noexcept { return empty() ? 0 : byte_offset; }
  // First and last element reached, in elements from element [0, ..., 0]. Exact for sizes and strides below
  // kMaxElements.
  void extent(Int128& low, Int128& high) const noexcept {
    low = high = 0;
    for (int d = 0; d < ndim; ++d) {
      Int128 reach = static_cast<Int128>(sizes[d] - 1) * strides[d];
      (reach < 0 ? low : high) += reach;
    }
  }
  // That no two elements share a place, by the sufficient test on strides in ascending order.
  bool non_overlapping() const noexcept;
};

// Reads ndim (at most ATALLA_MAX_DIMS) sizes and strides; the references must lie in the pool.
Shape read_shape(const View& view, uint8_t ndim, uint32_t sizes, uint32_t strides) noexcept;

}  // namespace atalla::runtime::loadable
