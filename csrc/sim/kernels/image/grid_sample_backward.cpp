// SPDX-License-Identifier: BSD-3-Clause
//
// grid_sample_backward: the gradients of the image and of the grid. A plane of the image's gradient is one task's,
// which takes the points in order, so that sums do not depend on threads; the grid's gradient is a sum over channels.
//
// Instruction sets: up to avx2
#include "sim/kernels/base/planes.h"
#include "sim/kernels/image/grid_sample.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = GridSampleBackwardOperands;

template <class T, class S>
struct GridBackward {
  const Launch& l;
  GridMode mode;
  GridAxis<T> axis[kSpatialDims];        // of the image
  GridAxis<T> plane_axis[kSpatialDims];  // of a contiguous plane
  int spatial;

  T at(int operand, int64_t offset) const { return convert<T>(l.ptr<const S>(operand)[offset]); }

  void taps_of(const GridAxis<T>* axes, int64_t grid_offset, AxisTaps<T>* t) const {
    t[0] = {{0}, {T(1)}, {T(0)}, 1};
    for (int d = kSpatialDims - spatial; d < kSpatialDims; ++d) {
      const int64_t coordinate = (kSpatialDims - 1 - d) * l.operand(Operand::kGrid).strides[4];
      t[d] = axis_taps(axes[d], mode, at(Operand::kGrid, grid_offset + coordinate));
    }
  }

  // f(tap offset, its indices) for the taps that lie inside.
  template <class F>
  static void each_tap(const AxisTaps<T>* t, F&& f) {
    for (int p = 0; p < t[0].count; ++p) {
      for (int q = 0; q < t[1].count; ++q) {
        for (int r = 0; r < t[2].count; ++r) {
          if (t[0].offset[p] < 0 || t[1].offset[q] < 0 || t[2].offset[r] < 0) continue;
          f(t[0].offset[p] + t[1].offset[q] + t[2].offset[r], p, q, r);
        }
      }
    }
  }

  // f(offset in the grid, offset in the output's gradient, z, y, x) for the points of image b, in order.
  template <class F>
  void each_point(int64_t b, F&& f) const {
    const atalla_operand &g = l.operand(Operand::kGrid), &o = l.operand(Operand::kGradOutput);
    for (int64_t z = 0; z < o.sizes[2]; ++z) {
      for (int64_t y = 0; y < o.sizes[3]; ++y) {
        for (int64_t x = 0; x < o.sizes[4]; ++x) {
          f(b * g.strides[0] + z * g.strides[1] + y * g.strides[2] + x * g.strides[3],
            b * o.strides[0] + z * o.strides[2] + y * o.strides[3] + x * o.strides[4]);
        }
      }
    }
  }

  bool image_gradient() const {
    constexpr int64_t kChannels = 8;  // that share the places of the points
    const atalla_operand &image = l.operand(Operand::kGradInput), &o = l.operand(Operand::kGradOutput);
    const int64_t size = plane_elements(image);
    const auto add = [&](int64_t b, int64_t first, int64_t n, T* planes) {
      each_point(b, [&](int64_t grid_offset, int64_t out_offset) {
        AxisTaps<T> t[kSpatialDims];
        taps_of(plane_axis, grid_offset, t);
        T g[kChannels];
        for (int64_t c = 0; c < n; ++c) g[c] = at(Operand::kGradOutput, out_offset + (first + c) * o.strides[1]);
        each_tap(t, [&](int64_t offset, int p, int q, int r) {
          const T w = t[2].weight[r] * t[1].weight[q] * t[0].weight[p];
          for (int64_t c = 0; c < n; ++c) planes[c * size + offset] += w * g[c];
        });
      });
      return true;
    };
    return accumulate_planes<T>(l, Operand::kGradInput, kChannels, image.sizes[1], add);
  }

  // Of the nearest pixel it is zero: its value does not follow the position, not even where it is NaN.
  void grid_gradient() const {
    const atalla_operand &gg = l.operand(Operand::kGradGrid), &g = l.operand(Operand::kGrid),
                         &o = l.operand(Operand::kGradOutput);
    const atalla_operand& in = l.operand(Operand::kInput);
    const int64_t width = o.sizes[4], channels = o.sizes[1];
    parallel_for(o.sizes[0] * o.sizes[2] * o.sizes[3], grain_for(width * channels * 8), [&](int64_t from, int64_t to) {
      for (int64_t row = from; row < to; ++row) {
        const int64_t y = row % o.sizes[3], z = row / o.sizes[3] % o.sizes[2], b = row / o.sizes[3] / o.sizes[2];
        for (int64_t x = 0; x < width; ++x) {
          AxisTaps<T> t[kSpatialDims];
          taps_of(axis, b * g.strides[0] + z * g.strides[1] + y * g.strides[2] + x * g.strides[3], t);
          const int64_t out_offset = b * o.strides[0] + z * o.strides[2] + y * o.strides[3] + x * o.strides[4];
          T sum[kSpatialDims] = {};
          const auto add = [&](int64_t offset, int p, int q, int r) {
            T product = 0;
            for (int64_t c = 0; c < channels; ++c) {
              product += at(Operand::kGradOutput, out_offset + c * o.strides[1]) *
                         at(Operand::kInput, b * in.strides[0] + c * in.strides[1] + offset);
            }
            sum[0] += product * t[0].slope[p] * t[1].weight[q] * t[2].weight[r];
            sum[1] += product * t[0].weight[p] * t[1].slope[q] * t[2].weight[r];
            sum[2] += product * t[0].weight[p] * t[1].weight[q] * t[2].slope[r];
          };
          if (mode != GridMode::kNearest) each_tap(t, add);
          S* at_grid = l.at<S>(Operand::kGradGrid, b, z, y, x);
          for (int k = 0; k < spatial; ++k) at_grid[k * gg.strides[4]] = convert<S>(sum[kSpatialDims - 1 - k]);
        }
      }
    });
  }
};

atalla_status run_grid_backward(const Launch& l) {
  const atalla_operand &image = l.operand(Operand::kInput), &grid = l.operand(Operand::kGrid);
  const bool with_image = l.data[Operand::kGradInput] != nullptr;
  const GridSampleBackwardParameters p = GridSampleBackwardParameters::read(l.desc);
  ATALLA_CHECK(check_grid(l, grid, image));
  const bool ok = with_float_types(image.dtype, [&]<class T, class S>(T, S) {
    GridBackward<T, S> b{l, p.mode, {}, {}, static_cast<int>(grid.sizes[4])};
    int64_t stride = 1;
    for (int d = kSpatialDims - 1; d >= 0; --d) {
      b.axis[d] = {image.sizes[2 + d], image.strides[2 + d], p.align_corners, p.padding};
      b.plane_axis[d] = {image.sizes[2 + d], stride, p.align_corners, p.padding};
      stride *= image.sizes[2 + d];
    }
    const bool done = !with_image || element_count(image) == 0 || b.image_gradient();
    if (element_count(grid) > 0) b.grid_gradient();
    return done;
  });
  return memory_status(l, ok);
}

}  // namespace

extern constexpr KernelFamily grid_sample_backward_kernels = {
    {"grid_sample_backward", kFloatDtypes, run_grid_backward},
};

}  // namespace atalla::sim::ATALLA_ISA
