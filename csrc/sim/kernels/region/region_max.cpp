// SPDX-License-Identifier: BSD-3-Clause
//
// roi_pool: the maximum of the elements of each bin of a region, and its gradient. A plane of the gradient belongs to
// one task, which takes regions in order.
//
// Instruction sets: up to avx2
#include <cfloat>

#include "sim/kernels/region/region.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Pool = RoiPoolOperands;
using Backward = RoiPoolBackwardOperands;

int64_t place(const atalla_operand& o, int64_t k, int64_t c, int64_t i, int64_t j) {
  return k * o.strides[0] + c * o.strides[1] + i * o.strides[2] + j * o.strides[3];
}

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
      const S* plane = l.ptr<const S>(Pool::kInput) + regions.image(k) * in.strides[0] + c * in.strides[1];
      const RoundedBins rows(regions.begin(k, 0), regions.end(k, 0), 1, o.sizes[2]);
      const RoundedBins columns(regions.begin(k, 1), regions.end(k, 1), 1, o.sizes[3]);
      for (int64_t i = 0; i < o.sizes[2]; ++i) {
        int64_t top, bottom;
        rows.template of<T>(i, height, &top, &bottom);
        for (int64_t j = 0; j < o.sizes[3]; ++j) {
          int64_t left, right;
          columns.template of<T>(j, width, &left, &right);
          int32_t* where = l.ptr<int32_t>(Pool::kArgmax) + place(l.operand(Pool::kArgmax), k, c, i, j);
          const T maximum = largest<T>(plane, in, top, bottom, left, right, where);
          l.ptr<S>(Pool::kOut)[place(o, k, c, i, j)] = convert<S>(maximum);
        }
      }
    }
  });
}

atalla_status run_pool(const Launch& l) {
  const char* name = "roi_pool";
  const double scale = RoiPoolParameters::read(l.desc).spatial_scale;
  atalla_status status = ATALLA_OK;
  with_float_types(l.operand(Pool::kOut).dtype, [&](auto arithmetic, auto storage) {
    using T = decltype(arithmetic);
    const Regions<T, decltype(storage)> regions{l, Pool::kRegions, static_cast<T>(scale)};
    status = regions.check(name, l.operand(Pool::kInput).sizes[0]);
    if (status == ATALLA_OK && element_count(l.operand(Pool::kOut)) > 0) pool(l, regions);
  });
  return status;
}

template <class T, class S>
bool scatter(const Launch& l, const Regions<T, S>& regions) {
  const atalla_operand &image = l.operand(Backward::kGradInput), &g = l.operand(Backward::kGradOutput);
  const int64_t size = image.sizes[2] * image.sizes[3], channels = image.sizes[1];
  Flag failed;
  parallel_for(image.sizes[0] * channels, grain_for(size), [&](int64_t from, int64_t to) {
    ScratchArray<T> plane(size);
    if (!plane) return failed.set();
    for (int64_t task = from; task < to; ++task) {
      const int64_t n = task / channels, c = task % channels;
      for (int64_t i = 0; i < size; ++i) plane[i] = T(0);
      for (int64_t k = 0; k < regions.count(); ++k) {
        if (regions.image(k) != n) continue;
        for (int64_t i = 0; i < g.sizes[2]; ++i) {
          for (int64_t j = 0; j < g.sizes[3]; ++j) {
            const int32_t at = l.ptr<const int32_t>(Backward::kArgmax)[place(l.operand(Backward::kArgmax), k, c, i, j)];
            if (at >= 0) plane[at] += convert<T>(l.ptr<const S>(Backward::kGradOutput)[place(g, k, c, i, j)]);
          }
        }
      }
      for (int64_t y = 0; y < image.sizes[2]; ++y) {
        S* row = l.ptr<S>(Backward::kGradInput) + place(image, n, c, y, 0);
        store_run(&plane[y * image.sizes[3]], image.sizes[3], row, image.dtype, image.strides[3]);
      }
    }
  });
  return !failed;
}

atalla_status check_maxima(const char* name, const Launch& l) {
  const atalla_operand& o = l.operand(Backward::kArgmax);
  const int64_t size = l.operand(Backward::kGradInput).sizes[2] * l.operand(Backward::kGradInput).sizes[3];
  for (int64_t k = 0; k < o.sizes[0]; ++k) {
    for (int64_t c = 0; c < o.sizes[1]; ++c) {
      for (int64_t i = 0; i < o.sizes[2]; ++i) {
        for (int64_t j = 0; j < o.sizes[3]; ++j) {
          const int32_t at = l.ptr<const int32_t>(Backward::kArgmax)[place(o, k, c, i, j)];
          if (at >= -1 && at < size) continue;
          return set_error(ATALLA_ERR_FAULT_INDEX, "%s: the maximum %d of a plane of %lld elements", name, at,
                           static_cast<long long>(size));
        }
      }
    }
  }
  return ATALLA_OK;
}

atalla_status run_backward(const Launch& l) {
  const char* name = "roi_pool_backward";
  ATALLA_CHECK(check_maxima(name, l));
  atalla_status status = ATALLA_OK;
  with_float_types(l.operand(Backward::kGradInput).dtype, [&](auto arithmetic, auto storage) {
    using T = decltype(arithmetic);
    const Regions<T, decltype(storage)> regions{l, Backward::kRegions, T(1)};
    status = regions.check(name, l.operand(Backward::kGradInput).sizes[0]);
    if (status != ATALLA_OK || element_count(l.operand(Backward::kGradInput)) == 0) return;
    if (!scatter(l, regions)) status = no_memory(name);
  });
  return status;
}

constexpr Kernel kKernels[] = {{"roi_pool", kFloatDtypes, run_pool}, {"roi_pool_backward", kFloatDtypes, run_backward}};

}  // namespace

[[gnu::cold]] KernelTable region_max_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
