// SPDX-License-Identifier: BSD-3-Clause
//
// The gradients of roi_align, ps_roi_align and ps_roi_pool. A plane belongs to one task, which takes regions in order:
// sums do not depend on threads.
//
// Instruction sets: up to avx2
#include "sim/kernels/region/region_taps.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = RoiAlignBackwardOperands;
constexpr int64_t kChannels = 8;  // that share the taps of a region

template <class T, class S>
struct RegionMeanBackward {
  const Launch& l;
  RegionRule rule;
  Regions<T, S> regions;

  // Adds bin i, j of channel c to the plane of an image.
  void add_bin(const RegionTaps<T, S>& region, int64_t k, int64_t c, int64_t i, int64_t j, T* plane) const {
    const atalla_operand& g = l.operand(Operand::kGradOutput);
    const BinTaps<T>&rows = region.taps[0], &columns = region.taps[1];
    const S value =
        l.ptr<const S>(Operand::kGradOutput)[k * g.strides[0] + c * g.strides[1] + i * g.strides[2] + j * g.strides[3]];
    const T grad = convert<T>(value) / region.divisor(i, j);
    const int64_t width = l.operand(Operand::kGradInput).sizes[3];
    for (int64_t a = rows.begin(i); a < rows.end(i); ++a) {
      T* row = plane + rows.place(a) * width;
      const T weighted = grad * rows.weight(a);
      for (int64_t b = columns.begin(j); b < columns.end(j); ++b) {
        row[columns.place(b)] += weighted * columns.weight(b);
      }
    }
  }

  void add_region(const RegionTaps<T, S>& region, int64_t k, int64_t channel, T* plane) const {
    const int64_t p = l.operand(Operand::kGradOutput).sizes[2], q = l.operand(Operand::kGradOutput).sizes[3];
    if (rule.sensitive()) return add_bin(region, k, channel / (p * q), channel / q % p, channel % q, plane);
    for (int64_t i = 0; i < p; ++i) {
      for (int64_t j = 0; j < q; ++j) add_bin(region, k, channel, i, j, plane);
    }
  }

  bool run() const {
    const atalla_operand& image = l.operand(Operand::kGradInput);
    const int64_t size = image.sizes[2] * image.sizes[3], groups = (image.sizes[1] + kChannels - 1) / kChannels;
    Flag failed;
    parallel_for(image.sizes[0] * groups, grain_for(size * kChannels), [&](int64_t from, int64_t to) {
      RegionTaps<T, S> region;
      region.rule = rule;
      ScratchArray<T> planes(size * kChannels);
      if (!planes || !region.allocate(l.operand(Operand::kGradOutput), image)) return failed.set();
      for (int64_t task = from; task < to; ++task) {
        const int64_t n = task / groups, first = task % groups * kChannels;
        const int64_t channels = min_of(kChannels, image.sizes[1] - first);
        for (int64_t i = 0; i < size * channels; ++i) planes[i] = T(0);
        for (int64_t k = 0; k < regions.count(); ++k) {
          if (regions.image(k) != n) continue;
          region.find(regions, k);
          for (int64_t c = 0; c < channels; ++c) add_region(region, k, first + c, &planes[c * size]);
        }
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t y = 0; y < image.sizes[2]; ++y) {
            S* row = l.ptr<S>(Operand::kGradInput) + n * image.strides[0] + (first + c) * image.strides[1] +
                     y * image.strides[2];
            store_run(&planes[c * size + y * image.sizes[3]], image.sizes[3], row, image.dtype, image.strides[3]);
          }
        }
      }
    });
    return !failed;
  }
};

template <RegionKind kKind>
atalla_status run_backward(const Launch& l) {
  constexpr const char* kNames[] = {"roi_align_backward", "ps_roi_align_backward", "ps_roi_pool_backward"};
  const char* name = kNames[static_cast<int>(kKind)];
  const RegionRule rule = RegionRule::read(l.desc, kKind, true);
  atalla_status status = ATALLA_OK;
  with_float_types(l.operand(Operand::kGradInput).dtype, [&](auto arithmetic, auto storage) {
    using T = decltype(arithmetic);
    using S = decltype(storage);
    const Regions<T, S> regions{l, Operand::kRegions, static_cast<T>(rule.scale)};
    status = regions.check(name, l.operand(Operand::kGradInput).sizes[0]);
    if (status != ATALLA_OK || element_count(l.operand(Operand::kGradInput)) == 0) return;
    if (!RegionMeanBackward<T, S>{l, rule, regions}.run()) status = no_memory(name);
  });
  return status;
}

template <RegionKind kKind>
constexpr Kernel kernel(const char* name) {
  return {name, kFloatDtypes, run_backward<kKind>};
}

constexpr Kernel kKernels[] = {kernel<RegionKind::kAlign>("roi_align_backward"),
                               kernel<RegionKind::kSensitiveAlign>("ps_roi_align_backward"),
                               kernel<RegionKind::kSensitivePool>("ps_roi_pool_backward")};

}  // namespace

[[gnu::cold]] KernelTable region_mean_backward_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
