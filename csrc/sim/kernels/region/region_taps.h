// SPDX-License-Identifier: BSD-3-Clause
//
// A bin of a region as a product of two lists of weighted rows and columns. roi_align, ps_roi_align and ps_roi_pool
// differ only in these lists and in the divisor of their sum.
#pragma once

#include "sim/kernels/region/region.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

enum class RegionKind { kAlign, kSensitiveAlign, kSensitivePool };

// The parameters that kernels of all kinds read from their launches.
struct RegionRule {
  RegionKind kind;
  double scale;
  int64_t sampling_ratio;
  bool aligned;
  bool whole;  // pools contain the last row and column

  bool sensitive() const { return kind != RegionKind::kAlign; }

  static RegionRule read(const atalla_launch_desc& desc, RegionKind kind, bool whole) {
    switch (kind) {
      case RegionKind::kAlign: {
        const RoiAlignParameters p = RoiAlignParameters::read(desc);
        return {kind, p.spatial_scale, p.sampling_ratio, p.aligned, whole};
      }
      case RegionKind::kSensitiveAlign: {
        const PsRoiAlignParameters p = PsRoiAlignParameters::read(desc);
        return {kind, p.spatial_scale, p.sampling_ratio, true, whole};
      }
      default:
        return {kind, PsRoiPoolParameters::read(desc).spatial_scale, 0, false, whole};
    }
  }
};

// The taps of all bins along one dimension: those of bin b are [first[b], first[b + 1]).
template <class T>
class BinTaps {
 public:
  bool allocate(int64_t bins, int64_t size) {
    bins_ = bins, size_ = size;
    if (!first_.allocate(bins + 1) || !place_.allocate(bins * size) || !weight_.allocate(bins * size) ||
        !line_.allocate(size) || !hit_.allocate(size)) {
      return false;
    }
    for (int64_t i = 0; i < size; ++i) line_[i] = T(0), hit_[i] = 0;
    return true;
  }

  int64_t begin(int64_t bin) const { return first_[bin]; }
  int64_t end(int64_t bin) const { return first_[bin + 1]; }
  int64_t place(int64_t tap) const { return place_[tap]; }
  T weight(int64_t tap) const { return weight_[tap]; }
  // Samples of a bin, or its elements.
  int64_t count(int64_t bin) const { return samples_ >= 0 ? samples_ : end(bin) - begin(bin); }

  // Linear interpolation between the elements at equal distances in each bin.
  void sample(T start, T extent, int64_t ratio) {
    const T bin = extent / static_cast<T>(bins_);
    const int64_t wanted = ratio > 0 ? ratio : to_int(ceiling(bin));
    samples_ = wanted > 0 ? wanted : 0;
    first_[0] = 0;
    for (int64_t b = 0; b < bins_; ++b) {
      const T from = start + static_cast<T>(b) * bin;
      low_ = size_, high_ = -1;
      int64_t i = 0, last = size_ > 0 ? samples_ : 0;
      limit(static_cast<double>(from), static_cast<double>(bin) / static_cast<double>(wanted), &i, &last);
      for (; i < last; ++i) {
        add(from + static_cast<T>(static_cast<float>(i) + 0.5f) * bin / static_cast<T>(samples_));
      }
      pack(b);
    }
  }

  // The elements of rounded bins.
  void pool(T begin, T end, bool whole) {
    const RoundedBins rounded(begin, end, 0, bins_);
    samples_ = -1;
    first_[0] = 0;
    for (int64_t b = 0; b < bins_; ++b) {
      int64_t from, to, n = first_[b];
      rounded.of<T>(b, whole || size_ == 0 ? size_ : size_ - 1, &from, &to);
      for (int64_t i = from; i < to; ++i, ++n) place_[n] = i, weight_[n] = T(1);
      first_[b + 1] = n;
    }
  }

 private:
  static float ceiling(float x) { return __builtin_ceilf(x); }
  static double ceiling(double x) { return __builtin_ceil(x); }

  // Leaves out samples that surely lie outside, so that the time for a region does not depend on how far it extends.
  void limit(double from, double step, int64_t* begin, int64_t* end) const {
    if (!(step > 0)) return;
    const double first = (-1 - from) / step - 2, last = (static_cast<double>(size_) - from) / step + 2;
    if (first > 0) *begin = first < static_cast<double>(*end) ? static_cast<int64_t>(first) : *end;
    if (last < static_cast<double>(*end)) *end = last > 0 ? static_cast<int64_t>(last) : 0;
  }

  void add(T y) {
    if (!(y >= T(-1) && y <= static_cast<T>(size_))) return;
    if (y <= 0) y = 0;
    int64_t low = static_cast<int64_t>(y), high = low + 1;
    if (low >= size_ - 1) low = high = size_ - 1, y = static_cast<T>(low);
    const T upper = y - static_cast<T>(low);
    line_[low] += T(1) - upper, line_[high] += upper;
    hit_[low] = hit_[high] = 1;
    low_ = min_of(low_, low), high_ = max_of(high_, high);
  }

  void pack(int64_t bin) {
    int64_t n = first_[bin];
    for (int64_t i = low_; i <= high_; ++i) {
      if (!hit_[i]) continue;
      place_[n] = i, weight_[n++] = line_[i];
      line_[i] = T(0), hit_[i] = 0;
    }
    first_[bin + 1] = n;
  }

  int64_t bins_ = 0, size_ = 0, samples_ = 0, low_ = 0, high_ = -1;
  ScratchArray<int64_t> first_, place_;
  ScratchArray<T> weight_, line_;
  ScratchArray<uint8_t> hit_;
};

// The taps of one region along both dimensions.
template <class T, class S>
struct RegionTaps {
  RegionRule rule;
  BinTaps<T> taps[2];  // rows, columns

  bool allocate(const atalla_operand& bins, const atalla_operand& image) {
    return taps[0].allocate(bins.sizes[2], image.sizes[2]) && taps[1].allocate(bins.sizes[3], image.sizes[3]);
  }

  void find(const Regions<T, S>& regions, int64_t k) {
    for (int d = 0; d < 2; ++d) {
      if (rule.kind == RegionKind::kSensitivePool) {
        taps[d].pool(regions.begin(k, d), regions.end(k, d), rule.whole);
        continue;
      }
      const T half = rule.aligned ? T(0.5) : T(0);
      const T begin = regions.begin(k, d) - half, end = regions.end(k, d) - half, extent = end - begin;
      taps[d].sample(begin, rule.aligned || !(extent < T(1)) ? extent : T(1), rule.sampling_ratio);
    }
  }

  // Of the sum of a bin. Without samples, roi_align gives 0 and ps_roi_align NaN, as upstream.
  T divisor(int64_t i, int64_t j) const {
    const int64_t count = taps[0].count(i) * taps[1].count(j);
    return static_cast<T>(count > 0 || rule.kind == RegionKind::kSensitiveAlign ? count : 1);
  }
};

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
