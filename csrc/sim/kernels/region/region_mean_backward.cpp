// SPDX-License-Identifier: BSD-3-Clause
//
// The gradients of roi_align, ps_roi_align and ps_roi_pool. A plane belongs to one task, which takes regions in order:
// sums do not depend on threads.
//
// Instruction sets: up to avx2
#include "sim/kernels/base/planes.h"
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
    const BinTaps<T>&rows = region.taps[0], &columns = region.taps[1];
    const S value = *l.at<const S>(Operand::kGradOutput, k, c, i, j);
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
    const auto add = [&](int64_t n, int64_t first, int64_t channels, T* planes) {
      RegionTaps<T, S> region;
      region.rule = rule;
      if (!region.allocate(l.operand(Operand::kGradOutput), image)) return false;
      for (int64_t k = 0; k < regions.count(); ++k) {
        if (regions.image(k) != n) continue;
        region.find(regions, k);
        for (int64_t c = 0; c < channels; ++c) add_region(region, k, first + c, planes + c * plane_elements(image));
      }
      return true;
    };
    return accumulate_planes<T>(l, Operand::kGradInput, kChannels, image.sizes[1], add);
  }
};

template <RegionKind kKind>
atalla_status run_backward(const Launch& l) {
  const RegionRule rule = RegionRule::read(l.desc, kKind, true);
  return with_regions(
      l, Operand::kRegions, rule.scale, Operand::kGradInput, Operand::kGradInput,
      [&]<class T, class S>(const Regions<T, S>& regions) { return RegionMeanBackward<T, S>{l, rule, regions}.run(); });
}

}  // namespace

extern constexpr KernelFamily region_mean_backward_kernels = {
    {"roi_align_backward", kFloatDtypes, run_backward<RegionKind::kAlign>},
    {"ps_roi_align_backward", kFloatDtypes, run_backward<RegionKind::kSensitiveAlign>},
    {"ps_roi_pool_backward", kFloatDtypes, run_backward<RegionKind::kSensitivePool>},
};

}  // namespace atalla::sim::ATALLA_ISA
