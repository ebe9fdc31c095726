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
    const S* from = l.ptr<const S>(image) + regions.image(k) * in.strides[0];
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
          const int64_t* s = l.operand(channels).strides;
          l.ptr<int32_t>(channels)[k * s[0] + c * s[1] + i * s[2] + j * s[3]] = static_cast<int32_t>(channel);
        }
      }
      S* to = l.ptr<S>(kOut) + k * o.strides[0] + c * o.strides[1] + i * o.strides[2];
      store_run(line, o.sizes[3], to, o.dtype, o.strides[3]);
    }
  }

  bool run() const {
    const atalla_operand &o = l.operand(kOut), &in = l.operand(image);
    const int64_t groups = (o.sizes[1] + kChannels - 1) / kChannels;
    Flag failed;
    parallel_for(o.sizes[0] * groups, grain_for(o.sizes[2] * o.sizes[3] * kChannels * 16),
                 [&](int64_t from, int64_t to) {
                   RegionTaps<T, S> region;
                   region.rule = rule;
                   ScratchArray<T> line(o.sizes[3]);
                   if (!line || !region.allocate(o, in)) return failed.set();
                   for (int64_t task = from; task < to; ++task) {
                     const int64_t k = task / groups, first = task % groups * kChannels;
                     region.find(regions, k);
                     for (int64_t c = first; c < min_of(first + kChannels, o.sizes[1]); ++c)
                       bins_of(region, k, c, line.get());
                   }
                 });
    return !failed;
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
  constexpr const char* kNames[] = {"roi_align", "ps_roi_align", "ps_roi_pool"};
  const char* name = kNames[static_cast<int>(kKind)];
  const RegionRule rule = RegionRule::read(l.desc, kKind, false);
  const Places places(rule.sensitive());
  atalla_status status = ATALLA_OK;
  with_float_types(l.operand(kOut).dtype, [&](auto arithmetic, auto storage) {
    using T = decltype(arithmetic);
    using S = decltype(storage);
    const Regions<T, S> regions{l, places.regions, static_cast<T>(rule.scale)};
    status = regions.check(name, l.operand(places.image).sizes[0]);
    if (status != ATALLA_OK || element_count(l.operand(kOut)) == 0) return;
    if (!RegionMean<T, S>{l, rule, places.channels, places.image, regions}.run()) status = no_memory(name);
  });
  return status;
}

template <RegionKind kKind>
constexpr Kernel kernel(const char* name) {
  return {name, kFloatDtypes, run_mean<kKind>};
}

constexpr Kernel kKernels[] = {kernel<RegionKind::kAlign>("roi_align"),
                               kernel<RegionKind::kSensitiveAlign>("ps_roi_align"),
                               kernel<RegionKind::kSensitivePool>("ps_roi_pool")};

}  // namespace

[[gnu::cold]] KernelTable region_mean_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
