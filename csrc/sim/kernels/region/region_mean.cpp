// SPDX-License-Identifier: BSD-3-Clause
//
// roi_align, ps_roi_align, ps_roi_pool: weighted means of the elements of each bin of a region.
//
// Instruction sets: up to avx2
#include "sim/kernels/region/region_taps.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int kOut = RoiAlignOperands::kOut;
constexpr int64_t kChannels = 64;  // that share the taps of a region

template <class T, class S>
struct RegionMean {
  const Launch& l;
  RegionRule rule;
  int channels, image;  // operands; `channels` is negative where there is none
  Regions<T, S> regions;

  void bins_of(const RegionTaps<T, S>& region, int64_t k, int64_t c, T* line) const {
    const atalla_operand &o = l.operand(kOut), &in = l.operand(image);
    const S* from = l.at<const S>(image, regions.image(k));
    const BinTaps<T>&rows = region.taps[0], &columns = region.taps[1];
    for (int64_t i = 0; i < o.sizes[2]; ++i) {
      for (int64_t j = 0; j < o.sizes[3]; ++j) {
        const int64_t channel = rule.sensitive() ? (c * o.sizes[2] + i) * o.sizes[3] + j : c;
        const S* plane = from + channel * in.strides[1];
        T sum = 0;
        for (int64_t a = rows.begin(i); a < rows.end(i); ++a) {
          const S* row = plane + rows.place(a) * in.strides[2];
          T part = 0;
          for (int64_t b = columns.begin(j); b < columns.end(j); ++b) {
            part += columns.weight(b) * convert<T>(row[columns.place(b) * in.strides[3]]);
          }
          sum += rows.weight(a) * part;
        }
        line[j] = sum / region.divisor(i, j);
        if (channels >= 0) {
          *l.at<int32_t>(channels, k, c, i, j) = static_cast<int32_t>(channel);
        }
      }
      S* to = l.at<S>(kOut, k, c, i);
      store_run(line, o.sizes[3], to, o.dtype, o.strides[3]);
    }
  }

  bool run() const {
    const atalla_operand &o = l.operand(kOut), &in = l.operand(image);
    const int64_t groups = ceil_div(o.sizes[1], kChannels);
    const int64_t work = o.sizes[2] * o.sizes[3] * kChannels * 16;
    return parallel_try(o.sizes[0] * groups, grain_for(work), [&](int64_t from, int64_t to) {
      RegionTaps<T, S> region;
      region.rule = rule;
      ScratchArray<T> line(o.sizes[3]);
      if (!line || !region.allocate(o, in)) return false;
      for (int64_t task = from; task < to; ++task) {
        const int64_t k = task / groups, first = task % groups * kChannels;
        region.find(regions, k);
        for (int64_t c = first; c < min_of(first + kChannels, o.sizes[1]); ++c) bins_of(region, k, c, line.get());
      }
      return true;
    });
  }
};

// Operands of a kernel whose bins have input channels of their own, and of one whose bins share them.
struct Places {
  int channels, image, regions;
  explicit Places(bool sensitive)
      : channels(sensitive ? PsRoiAlignOperands::kChannels : -1),
        image(sensitive ? PsRoiAlignOperands::kInput : RoiAlignOperands::kInput),
        regions(sensitive ? PsRoiAlignOperands::kRegions : RoiAlignOperands::kRegions) {}
};

template <RegionKind kKind>
atalla_status run_mean(const Launch& l) {
  const RegionRule rule = RegionRule::read(l.desc, kKind, false);
  const Places places(rule.sensitive());
  return with_regions(l, places.regions, rule.scale, places.image, kOut,
                      [&]<class T, class S>(const Regions<T, S>& regions) {
                        return RegionMean<T, S>{l, rule, places.channels, places.image, regions}.run();
                      });
}

}  // namespace

extern constexpr KernelFamily region_mean_kernels = {
    {"roi_align", kFloatDtypes, run_mean<RegionKind::kAlign>},
    {"ps_roi_align", kFloatDtypes, run_mean<RegionKind::kSensitiveAlign>},
    {"ps_roi_pool", kFloatDtypes, run_mean<RegionKind::kSensitivePool>},
};

}  // namespace atalla::sim::ATALLA_ISA
