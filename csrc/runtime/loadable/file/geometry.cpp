// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/file/geometry.h"

#include <cstdlib>
#include <utility>

namespace atalla::runtime::loadable {

bool Shape::non_overlapping() const noexcept {
  if (empty()) return true;
  std::pair<int64_t, int64_t> dims[ATALLA_MAX_DIMS];  // |stride|, size
  int n = 0;
  for (int d = 0; d < ndim; ++d) {  // sorted by insertion: there are few, and nearly always in order already
    if (sizes[d] <= 1) continue;
    std::pair<int64_t, int64_t> dim{std::abs(strides[d]), sizes[d]};
    int at = n++;
    for (; at > 0 && dim < dims[at - 1]; --at) dims[at] = dims[at - 1];
    dims[at] = dim;
  }
  Int128 extent = 1;
  for (int i = 0; i < n; ++i) {
    if (dims[i].first < extent) return false;
    extent += static_cast<Int128>(dims[i].second - 1) * dims[i].first;
  }
  return true;
}

Shape read_shape(const View& view, uint8_t ndim, uint32_t sizes, uint32_t strides) noexcept {
  Shape shape;
  shape.ndim = ndim;
  for (int d = 0; d < ndim; ++d) {
    shape.sizes[d] = view.integers[sizes + static_cast<uint32_t>(d)];
    shape.strides[d] = view.integers[strides + static_cast<uint32_t>(d)];
  }
  return shape;
}

}  // namespace atalla::runtime::loadable
