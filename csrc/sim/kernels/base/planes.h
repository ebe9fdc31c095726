// SPDX-License-Identifier: BSD-3-Clause
//
// Gradients of images [n, c, h, w] or [n, c, d, h, w], to which windows, regions or points add. One task adds up a few
// planes, in order: sums do not depend on threads.
#pragma once

#include "sim/kernels/base/dispatch.h"
#include "sim/kernels/base/dispatch_dims.h"
#include "sim/kernels/base/scratch_array.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

inline int64_t plane_elements(const atalla_operand& image) {
  int64_t n = 1;
  for (int d = 2; d < image.ndim; ++d) n *= image.sizes[d];
  return n;
}

// add(n, first, count, planes) adds to `count` contiguous planes of zeros, those of channels from `first` on of image
// n. They are at most `together`, and of one group of `per_group` channels. False if it returns false, or without
// memory.
template <class T, class F>
bool accumulate_planes(const Launch& l, int operand, int64_t together, int64_t per_group, F&& add) {
  const atalla_operand& image = l.operand(operand);
  const int64_t *sizes = image.sizes, *strides = image.strides;
  const int64_t width = sizes[image.ndim - 1], size = plane_elements(image), rows = size / max_of(width, 1);
  const int64_t block = min_of(together, per_group), blocks = ceil_div(per_group, block);
  const int64_t tasks = sizes[1] / per_group * blocks;  // of an image
  return parallel_try(sizes[0] * tasks, grain_for(size * block), [&](int64_t begin, int64_t end) {
    ScratchArray<T> planes(size * block);
    if (!planes) return false;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t n = task / tasks, in_group = task % blocks * block;
      const int64_t first = task % tasks / blocks * per_group + in_group, count = min_of(block, per_group - in_group);
      for (int64_t i = 0; i < size * count; ++i) planes[i] = T(0);
      if (!add(n, first, count, planes.get())) return false;
      for (int64_t i = 0; i < rows * count; ++i) {
        const int64_t row = i % rows, d = image.ndim - 2;
        int64_t offset = n * strides[0] + (first + i / rows) * strides[1] + row % sizes[d] * strides[d];
        if (d > 2) offset += row / sizes[d] * strides[2];
        store_run(&planes[i * width], width, at(l.data[operand], image.dtype, offset), image.dtype, strides[d + 1]);
      }
    }
    return true;
  });
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
