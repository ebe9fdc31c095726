// SPDX-License-Identifier: BSD-3-Clause
//
// grid_sample: out[n, c, point] = the image n, c at the place that grid[n, point] names, in two or three dimensions.
//
// Instruction sets: up to avx2
#include "sim/kernels/image/grid_sample.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = GridSampleOperands;

template <class T, class S>
struct GridSampler {
  const Launch& l;
  GridMode mode;
  GridAxis<T> axis[kSpatialDims];  // d, h, w
  int spatial;

  // Points [x0, x0 + n) of row (b, z, y).
  void find(int64_t b, int64_t z, int64_t y, int64_t x0, int64_t n, GridTaps<T>& taps) const {
    const atalla_operand& g = l.operand(Operand::kGrid);
    for (int64_t i = 0; i < n; ++i) {
      const S* at = l.at<const S>(Operand::kGrid, b, z, y, (x0 + i));
      AxisTaps<T> t[kSpatialDims];
      t[0] = {{0}, {T(1)}, {T(0)}, 1};
      for (int d = kSpatialDims - spatial; d < kSpatialDims; ++d) {
        t[d] = axis_taps(axis[d], mode, convert<T>(at[(kSpatialDims - 1 - d) * g.strides[4]]));
      }
      int k = 0;
      for (int p = 0; p < t[0].count; ++p) {
        for (int q = 0; q < t[1].count; ++q) {
          const bool row_inside = t[0].offset[p] >= 0 && t[1].offset[q] >= 0;
          const int64_t row = t[0].offset[p] + t[1].offset[q];
          for (int r = 0; r < t[2].count; ++r, ++k) {
            taps.offset[k][i] = row_inside && t[2].offset[r] >= 0 ? row + t[2].offset[r] : -1;
            taps.weight[k][i] = t[2].weight[r] * t[1].weight[q] * t[0].weight[p];
          }
        }
      }
      taps.count = k;
    }
  }

  static void gather(const GridTaps<T>& taps, const S* in, int64_t n, T* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = T(0);
    for (int k = 0; k < taps.count; ++k) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t o = taps.offset[k][i];
        const T v = o >= 0 ? convert<T>(in[o]) : T(0);
        out[i] += taps.weight[k][i] * v;
      }
    }
  }
  // Nearest copies: a weight of 1 must not turn an infinity into a NaN where the point is outside.
  static void pick(const GridTaps<T>& taps, const S* in, int64_t n, T* out) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t o = taps.offset[0][i];
      out[i] = o >= 0 ? convert<T>(in[o]) : T(0);
    }
  }

  void run() const {
    const atalla_operand& o = l.operand(Operand::kOut);
    const int64_t width = o.sizes[4], rows = o.sizes[0] * o.sizes[2] * o.sizes[3];
    const int64_t cost = width * o.sizes[1] * (spatial == 2 ? 4 : 8) + width * 16;
    parallel_for(rows, grain_for(cost), [&](int64_t begin, int64_t end) {
      GridTaps<T> taps;
      T line[kGridBlock];
      for (int64_t r = begin; r < end; ++r) {
        const int64_t y = r % o.sizes[3], z = r / o.sizes[3] % o.sizes[2], b = r / o.sizes[3] / o.sizes[2];
        for (int64_t x = 0; x < width; x += kGridBlock) {
          const int64_t n = width - x < kGridBlock ? width - x : kGridBlock;
          find(b, z, y, x, n, taps);
          for (int64_t c = 0; c < o.sizes[1]; ++c) {
            const S* image = l.at<const S>(Operand::kInput, b, c);
            if (mode == GridMode::kNearest) pick(taps, image, n, line);
            else gather(taps, image, n, line);
            S* out = l.at<S>(Operand::kOut, b, c, z, y, x);
            store_run(line, n, out, o.dtype, o.strides[4]);
          }
        }
      }
    });
  }
};

atalla_status run_grid_sample(const Launch& l) {
  const atalla_operand &out = l.operand(Operand::kOut), &in = l.operand(Operand::kInput),
                       &grid = l.operand(Operand::kGrid);
  const GridSampleParameters p = GridSampleParameters::read(l.desc);
  ATALLA_CHECK(check_grid(l, grid, in));
  if (element_count(out) == 0) return ATALLA_OK;
  with_float_types(in.dtype, [&]<class T, class S>(T, S) {
    GridSampler<T, S> sampler{l, p.mode, {}, static_cast<int>(grid.sizes[4])};
    for (int d = 0; d < kSpatialDims; ++d) {
      sampler.axis[d] = {in.sizes[2 + d], in.strides[2 + d], p.align_corners, p.padding};
    }
    sampler.run();
  });
  return ATALLA_OK;
}

}  // namespace

extern constexpr KernelFamily grid_sample_kernels = {{"grid_sample", kFloatDtypes, run_grid_sample}};

}  // namespace atalla::sim::ATALLA_ISA
