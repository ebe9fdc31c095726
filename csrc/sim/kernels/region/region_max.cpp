// SPDX-License-Identifier: BSD-3-Clause
//
// roi_pool: the maximum of the elements of each bin of a region, and its gradient. A plane of the gradient belongs to
// one task, which takes regions in order.
//
// Instruction sets: up to avx2
#include <cfloat>

#include "sim/kernels/base/planes.h"
#include "sim/kernels/region/region.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Pool = RoiPoolOperands;
using Backward = RoiPoolBackwardOperands;

// The first of the largest elements of rows [top, bottom) and columns [left, right). NaN and -inf never are.
template <class T, class S>
T largest(const S* plane, const atalla_operand& in, int64_t top, int64_t bottom, int64_t left, int64_t right,
          int32_t* where) {
  T maximum = bottom <= top || right <= left ? T(0) : T(-FLT_MAX);
  *where = -1;
  for (int64_t y = top; y < bottom; ++y) {
    for (int64_t x = left; x < right; ++x) {
      const T value = convert<T>(plane[y * in.strides[2] + x * in.strides[3]]);
      if (!(value > maximum)) continue;
      maximum = value;
      *where = static_cast<int32_t>(y * in.sizes[3] + x);
    }
  }
  return maximum;
}

template <class T, class S>
void pool(const Launch& l, const Regions<T, S>& regions) {
  const atalla_operand &o = l.operand(Pool::kOut), &in = l.operand(Pool::kInput);
  const int64_t height = in.sizes[2], width = in.sizes[3], channels = o.sizes[1];
  parallel_for(o.sizes[0] * channels, grain_for(height * width), [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; ++task) {
      const int64_t k = task / channels, c = task % channels;
      const S* plane = l.at<const S>(Pool::kInput, regions.image(k), c);
      const RoundedBins rows(regions.begin(k, 0), regions.end(k, 0), 1, o.sizes[2]);
      const RoundedBins columns(regions.begin(k, 1), regions.end(k, 1), 1, o.sizes[3]);
      for (int64_t i = 0; i < o.sizes[2]; ++i) {
        int64_t top, bottom;
        rows.template of<T>(i, height, &top, &bottom);
        for (int64_t j = 0; j < o.sizes[3]; ++j) {
          int64_t left, right;
          columns.template of<T>(j, width, &left, &right);
          int32_t* where = l.at<int32_t>(Pool::kArgmax, k, c, i, j);
          const T maximum = largest<T>(plane, in, top, bottom, left, right, where);
          *l.at<S>(Pool::kOut, k, c, i, j) = convert<S>(maximum);
        }
      }
    }
  });
}

atalla_status run_pool(const Launch& l) {
  const double scale = RoiPoolParameters::read(l.desc).spatial_scale;
  return with_regions(l, Pool::kRegions, scale, Pool::kInput, Pool::kOut, [&](const auto& regions) {
    pool(l, regions);
    return true;
  });
}

template <class T, class S>
bool scatter(const Launch& l, const Regions<T, S>& regions) {
  const atalla_operand& g = l.operand(Backward::kGradOutput);
  const auto add = [&](int64_t n, int64_t c, int64_t, T* plane) {
    for (int64_t k = 0; k < regions.count(); ++k) {
      if (regions.image(k) != n) continue;
      for (int64_t i = 0; i < g.sizes[2]; ++i) {
        for (int64_t j = 0; j < g.sizes[3]; ++j) {
          const int32_t at = *l.at<const int32_t>(Backward::kArgmax, k, c, i, j);
          if (at >= 0) plane[at] += convert<T>(*l.at<const S>(Backward::kGradOutput, k, c, i, j));
        }
      }
    }
    return true;
  };
  return accumulate_planes<T>(l, Backward::kGradInput, 1, g.sizes[1], add);
}

atalla_status check_maxima(const Launch& l) {
  const atalla_operand& o = l.operand(Backward::kArgmax);
  const int64_t size = l.operand(Backward::kGradInput).sizes[2] * l.operand(Backward::kGradInput).sizes[3];
  for (int64_t k = 0; k < o.sizes[0]; ++k) {
    for (int64_t c = 0; c < o.sizes[1]; ++c) {
      for (int64_t i = 0; i < o.sizes[2]; ++i) {
        for (int64_t j = 0; j < o.sizes[3]; ++j) {
          const int32_t at = *l.at<const int32_t>(Backward::kArgmax, k, c, i, j);
          if (at >= -1 && at < size) continue;
          return fail(l, ATALLA_ERR_FAULT_INDEX, "the maximum {} of a plane of {} elements", at, size);
        }
      }
    }
  }
  return ATALLA_OK;
}

atalla_status run_backward(const Launch& l) {
  ATALLA_CHECK(check_maxima(l));
  return with_regions(l, Backward::kRegions, 1, Backward::kGradInput, Backward::kGradInput,
                      [&](const auto& regions) { return scatter(l, regions); });
}

}  // namespace

extern constexpr KernelFamily region_max_kernels = {
    {"roi_pool", kFloatDtypes, run_pool},
    {"roi_pool_backward", kFloatDtypes, run_backward},
};

}  // namespace atalla::sim::ATALLA_ISA
