// SPDX-License-Identifier: BSD-3-Clause
//
// A resampling along one dimension as a sparse matrix: for each output index the input indices it takes (its taps) and
// their weights. Made once a launch. Its transpose is the resampling's gradient.
#pragma once

#include "sim/kernels/image/resample_position.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

template <class T>
class Taps {
 public:
  int64_t in = 1, out = 1;
  int precision = 0;  // of integer weights: they are scaled by 2^precision

  bool reserve(int64_t inputs, int64_t outputs, int64_t entries) {
    in = inputs, out = outputs;
    used_ = filled_ = 0;
    if (!start_.allocate(outputs + 1) || !index_.allocate(entries + 1) || !weight_.allocate(entries + 1)) return false;
    start_[0] = 0;
    return true;
  }
  void push(int64_t i, T w) { index_[used_] = static_cast<int32_t>(i), weight_[used_++] = w; }
  void end_output() { start_[++filled_] = used_; }

  int64_t begin(int64_t o) const { return start_[o]; }
  int64_t end(int64_t o) const { return start_[o + 1]; }
  int32_t index(int64_t k) const { return index_[k]; }
  T weight(int64_t k) const { return weight_[k]; }
  T& weight(int64_t k) { return weight_[k]; }
  int64_t entries() const { return used_; }
  bool identity() const { return identity_; }
  // As many taps for each output, if all have as many; else 0. Then tap k of output o stands at k * out + o here.
  int64_t uniform() const { return uniform_; }
  const int32_t* columns() const { return column_index_.get(); }
  const T* column_weights() const { return column_weight_.get(); }

  // Exchanges inputs and outputs. Entries of an output stay in ascending order.
  bool transpose() {
    ScratchArray<int64_t> start(in + 1), at(in + 1);
    ScratchArray<int32_t> index(used_ + 1);
    ScratchArray<T> weight(used_ + 1);
    if (!start || !at || !index || !weight) return false;
    for (int64_t i = 0; i <= in; ++i) start[i] = 0;
    for (int64_t k = 0; k < used_; ++k) ++start[index_[k] + 1];
    for (int64_t i = 0; i < in; ++i) start[i + 1] += start[i];
    for (int64_t i = 0; i < in; ++i) at[i] = start[i];
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t k = start_[o]; k < start_[o + 1]; ++k) {
        const int64_t to = at[index_[k]]++;
        index[to] = static_cast<int32_t>(o), weight[to] = weight_[k];
      }
    }
    start_.swap(start), index_.swap(index), weight_.swap(weight);
    const int64_t outputs = in;
    in = out, out = outputs;
    return true;
  }

  // To be called when all outputs are filled in.
  bool finish() {
    const T one = static_cast<T>(int64_t{1} << precision);
    identity_ = in == out;
    uniform_ = out > 0 ? end(0) - begin(0) : 0;
    for (int64_t o = 0; o < out; ++o) {
      const int64_t n = end(o) - begin(o);
      if (n != uniform_) uniform_ = 0;
      identity_ = identity_ && n == 1 && index_[begin(o)] == o && weight_[begin(o)] == one;
    }
    if (uniform_ == 0 || identity_) return true;
    if (!column_index_.allocate(used_) || !column_weight_.allocate(used_)) return false;
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t k = 0; k < uniform_; ++k) {
        column_index_[k * out + o] = index_[begin(o) + k];
        column_weight_[k * out + o] = weight_[begin(o) + k];
      }
    }
    return true;
  }

 private:
  int64_t used_ = 0, filled_ = 0, uniform_ = 0;
  bool identity_ = false;
  ScratchArray<int64_t> start_;
  ScratchArray<int32_t> index_, column_index_;
  ScratchArray<T> weight_, column_weight_;
};

enum class Filter { Linear, Cubic, LinearAntialias, CubicAntialias, LanczosAntialias, NearestFloor, NearestExact };

inline bool is_antialias(Filter f) {
  return f == Filter::LinearAntialias || f == Filter::CubicAntialias || f == Filter::LanczosAntialias;
}
// Width of the filter at scale 1.
inline int filter_size(Filter f) {
  switch (f) {
    case Filter::Linear:
    case Filter::LinearAntialias:
      return 2;
    case Filter::LanczosAntialias:
      return 6;
    case Filter::NearestFloor:
    case Filter::NearestExact:
      return 1;
    default:
      return 4;
  }
}

// Keys' cubic convolution: |x| < 1, and 1 <= |x| < 2. Rounded as upstream's kernels are compiled: a weight that becomes
// 0 makes an infinity NaN.
template <class T>
inline T cubic_near(T x, T a) {
  return multiply_add(multiply_add(a + 2, x, -(a + 3)) * x, x, T(1));
}
template <class T>
inline T cubic_far(T x, T a) {
  return multiply_add(multiply_add(multiply_add(a, x, -5 * a), x, 8 * a), x, -4 * a);
}

// The filters of antialiased resampling, which are Pillow's; `keys` -0.75 is OpenCV's choice for the other cubic one.
template <class T>
inline T filter_weight(Filter f, T x, T keys) {
  const T y = x < 0 ? -x : x;
  switch (f) {
    case Filter::Linear:
    case Filter::LinearAntialias:
      return y < 1 ? 1 - y : T(0);
    case Filter::LanczosAntialias: {
      if (y == 0) return 1;
      if (y >= 3) return 0;
      const double p = 3.141592653589793238462643383279502884 * static_cast<double>(y);
      return static_cast<T>(3 * __builtin_sin(p) * __builtin_sin(p / 3) / (p * p));
    }
    default:
      return y < 1 ? cubic_near(y, keys) : y < 2 ? cubic_far(y, keys) : T(0);
  }
}

template <class T>
struct Position {
  int64_t index;
  T lambda;
};
template <class T>
inline Position<T> split_position(T x, int64_t in) {
  int64_t i = static_cast<int64_t>(__builtin_floorf(static_cast<float>(x)));
  if (i > in - 1) i = in - 1;
  T lambda = x - static_cast<T>(i);
  lambda = lambda < 0 ? T(0) : lambda > 1 ? T(1) : lambda;
  return {i, lambda};
}

// T: the arithmetic of positions and weights.
template <class T>
bool fill_plain(Taps<T>& taps, Filter filter, int64_t in, int64_t out, bool align_corners, double factor) {
  if (!taps.reserve(in, out, out * filter_size(filter))) return false;
  const T scale = sample_scale<T>(in, out, align_corners, factor);
  for (int64_t o = 0; o < out; ++o, taps.end_output()) {
    if (filter == Filter::NearestFloor || filter == Filter::NearestExact) {
      const NearestMode mode = filter == Filter::NearestFloor ? NearestMode::kFloorSmall : NearestMode::kExactSmall;
      taps.push(nearest_index<T>(mode, o, in, out, factor), T(1));
    } else if (filter == Filter::Linear) {
      if (in == out) {
        taps.push(o, T(1));
        // As upstream: an infinite element gets a weight of 0 too, which makes a NaN. (A dimension of one element may
        // be none of the image.)
        if (in > 1) taps.push(o, T(0));
        continue;
      }
      const auto [i, lambda] = split_position(sample_position(scale, o, align_corners, false), in);
      taps.push(i, T(1) - lambda);
      taps.push(i < in - 1 ? i + 1 : i, lambda);
    } else {
      if (in == 1 && out == 1) {
        taps.push(0, T(1));
        continue;
      }
      const auto [i, t] = split_position(sample_position(scale, o, align_corners, true), in);
      const T a = T(-0.75);
      const T weights[4] = {cubic_far(t + 1, a), cubic_near(t, a), cubic_near(1 - t, a), cubic_far(1 - t + 1, a)};
      for (int64_t k = 0; k < 4; ++k) {
        const int64_t x = i + k - 1;
        taps.push(x < 0 ? 0 : x < in - 1 ? x : in - 1, weights[k]);
      }
    }
  }
  return true;
}

template <class T>
bool fill_antialias(Taps<T>& taps, Filter filter, int64_t in, int64_t out, bool align_corners, double factor) {
  const T scale = sample_scale<T>(in, out, align_corners, factor);
  const double half = filter_size(filter) * 0.5;
  const T support = static_cast<T>(scale >= 1 ? half * static_cast<double>(scale) : half);
  const T inverse = static_cast<T>(scale >= 1 ? 1.0 / static_cast<double>(scale) : 1.0);
  const int64_t most = static_cast<int64_t>(__builtin_ceil(static_cast<double>(support))) * 2 + 1;
  if (!taps.reserve(in, out, out * most)) return false;
  for (int64_t o = 0; o < out; ++o, taps.end_output()) {
    if (in == out) {
      taps.push(o, T(1));
      continue;
    }
    const T center = static_cast<T>(static_cast<double>(scale) * (static_cast<double>(o) + 0.5));
    int64_t first = static_cast<int64_t>(static_cast<double>(center - support) + 0.5);
    if (first < 0) first = 0;
    int64_t size = static_cast<int64_t>(static_cast<double>(center + support) + 0.5);
    size = (size < in ? size : in) - first;
    size = size < 0 ? 0 : size < most ? size : most;
    const int64_t begin = taps.entries();
    T total = 0;
    for (int64_t j = 0; j < size; ++j) {
      const double x = static_cast<double>(static_cast<T>(j + first) - center) + 0.5;
      const T w = filter_weight<T>(filter, static_cast<T>(x * static_cast<double>(inverse)), T(-0.5));
      taps.push(first + j, w);
      total += w;
    }
    if (total == 0) continue;
    for (int64_t j = 0; j < size; ++j) taps.weight(begin + j) /= total;
  }
  return true;
}

template <class T>
bool fill_taps(Taps<T>& taps, Filter filter, int64_t in, int64_t out, bool align_corners, double factor) {
  return is_antialias(filter) ? fill_antialias(taps, filter, in, out, align_corners, factor)
                              : fill_plain(taps, filter, in, out, align_corners, factor);
}

// Fixed-point weights, as Pillow and upstream have them for 8-bit images: as many bits as keep the largest below 2^15.
inline bool fill_fixed(Taps<int32_t>& taps, Filter filter, int64_t in, int64_t out, bool align_corners, double factor) {
  Taps<double> exact;
  if (is_antialias(filter) || in == out) {
    if (!fill_antialias(exact, filter, in, out, align_corners, factor)) return false;
  } else {
    const int64_t size = filter_size(filter), half = size / 2;
    if (!exact.reserve(in, out, out * size)) return false;
    const double scale = sample_scale<double>(in, out, align_corners, factor);
    for (int64_t o = 0; o < out; ++o, exact.end_output()) {
      const auto [i, lambda] = split_position(sample_position(scale, o, align_corners, size > 2), in);
      const int64_t low = i - half + 1, first = low < 0 ? 0 : low;
      const int64_t high = i + half + 1, count = (high < in ? high : in) - first;
      const int64_t begin = exact.entries();
      for (int64_t k = 0; k < count; ++k) exact.push(first + k, 0);
      int64_t at = 0;
      for (int64_t k = 0; k < size; ++k, ++at) {  // weights outside of the image go to its border
        if (low + k <= 0) at = 0;
        else if (low + k >= in - 1) at = count - 1;
        exact.weight(begin + at) += filter_weight<double>(filter, static_cast<double>(k + 1 - half) - lambda, -0.75);
      }
    }
  }
  double largest = 0;
  for (int64_t k = 0; k < exact.entries(); ++k) largest = exact.weight(k) > largest ? exact.weight(k) : largest;
  int precision = 0;
  while (precision < 22 && 0.5 + largest * static_cast<double>(int64_t{2} << precision) < 32768) ++precision;
  if (!taps.reserve(in, out, exact.entries())) return false;
  taps.precision = precision;
  for (int64_t o = 0; o < out; ++o, taps.end_output()) {
    for (int64_t k = exact.begin(o); k < exact.end(o); ++k) {
      const double v = exact.weight(k) * static_cast<double>(int64_t{1} << precision);
      taps.push(exact.index(k), static_cast<int32_t>(v < 0 ? v - 0.5 : v + 0.5));
    }
  }
  return true;
}

}  // namespace
}  // namespace atalla::sim::ATALLA_ISA
