// SPDX-License-Identifier: BSD-3-Clause
//
// Non-maximum suppression, pools of regions and deformable columns, with their gradients, against plain references.
#include <algorithm>
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

atalla_launch_desc describe_launch(atalla_dtype dtype, int outputs, const Index& iparams = {},
                                   const std::vector<double>& fparams = {}) {
  atalla_launch_desc d{};
  d.n_outputs = static_cast<uint8_t>(outputs);
  d.compute_dtype = dtype;
  for (size_t i = 0; i < iparams.size(); ++i) d.iparams[i] = iparams[i];
  for (size_t i = 0; i < fparams.size(); ++i) d.fparams[i] = fparams[i];
  return d;
}

double tolerance(atalla_dtype d) {
  return d == ATALLA_F64 ? 1e-12 : d == ATALLA_F32 ? 2e-5 : d == ATALLA_F16 ? 4e-3 : 3e-2;
}

// Elements of `out` that differ from those of `expected`.
int differences(const Tensor& out, const Tensor& expected) {
  int wrong = 0;
  out.each([&](const Index& i) {
    const double e = expected.get(i), x = out.get(i);
    wrong +=
        !(std::isnan(e) && std::isnan(x)) && x != e && !(std::fabs(x - e) <= tolerance(out.dtype) * (1 + std::fabs(e)));
  });
  return wrong;
}

// A double tensor of zeros, to sum up references.
Tensor zeros(const Index& shape) {
  Tensor t(ATALLA_F64, shape);
  t.each([&](const Index& i) { t.set(i, 0); });
  return t;
}

void add(Tensor& t, const Index& i, double x) { t.set(i, t.get(i) + x); }

// Rows of boxes are kept unless a kept one before them overlaps them by more than the threshold.
Index kept_boxes(const Tensor& boxes, const Index& order, double threshold) {
  auto area = [&](int64_t i) {
    return (boxes.get({i, 2}) - boxes.get({i, 0})) * (boxes.get({i, 3}) - boxes.get({i, 1}));
  };
  Index kept;
  for (const int64_t i : order) {
    const bool dropped = std::any_of(kept.begin(), kept.end(), [&](int64_t j) {
      double both = 1;
      for (int64_t d = 0; d < 2; ++d) {
        const double low = std::max(boxes.get({i, d}), boxes.get({j, d}));
        both *= std::max(0.0, std::min(boxes.get({i, d + 2}), boxes.get({j, d + 2})) - low);
      }
      return both / (area(i) + area(j) - both) > threshold;
    });
    if (!dropped) kept.push_back(i);
  }
  return kept;
}

// Corners are multiples of 1/4, so that all dtypes hold them, and overlaps are far from the thresholds.
void suppression(atalla_dtype d, int64_t n, double threshold) {
  Random random;
  Tensor boxes(d, {n, 4}, {1, 0});
  Index order;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < 2; ++c) {
      const double corner = static_cast<double>(random.below(80)) / 4;
      boxes.set({i, c}, corner);
      boxes.set({i, c + 2}, corner + static_cast<double>(1 + random.below(40)) / 4);
    }
    order.insert(order.begin() + random.below(i + 1), i);
  }
  Tensor places(ATALLA_I64, {n}), count(ATALLA_I64, {1});
  for (int64_t i = 0; i < n; ++i) places.set({i}, static_cast<double>(order[static_cast<size_t>(i)]));
  const Index kept = kept_boxes(boxes, order, threshold);
  for (const int64_t size : {n, n / 3, n + 5}) {
    Tensor keep(ATALLA_I64, {size});
    auto desc = describe_launch(d, 2, {-7}, {threshold});
    CHECK_EQ(run_kernel("nms", desc, {&keep, &count, &boxes, &places}), ATALLA_OK);
    CHECK_EQ(count.get_integer({0}), static_cast<int64_t>(kept.size()));
    int wrong = 0;
    for (int64_t i = 0; i < size; ++i) {
      const bool has = i < static_cast<int64_t>(kept.size());
      wrong += keep.get_integer({i}) != (has ? kept[static_cast<size_t>(i)] : -7);
    }
    CHECK_EQ(wrong, 0);
  }
  places.set({n - 1}, static_cast<double>(n));
  Tensor keep(ATALLA_I64, {n});
  auto desc = describe_launch(d, 2, {-7}, {threshold});
  CHECK_EQ(run_kernel("nms", desc, {&keep, &count, &boxes, &places}), ATALLA_ERR_FAULT_INDEX);
}

struct Tap {
  int64_t place;
  double weight;
};
using Taps = std::vector<Tap>;

// The elements of `size` that a bin reads along one dimension, and their weights, whose sum is one inside.
struct PoolRule {
  const char* name;
  double scale;
  int64_t ratio;  // 0: a pool of whole elements
  bool aligned, sensitive;

  Taps taps(double first, double last, int64_t bins, int64_t bin, int64_t size, bool backward) const {
    const double b = static_cast<double>(bin), count = static_cast<double>(bins);
    Taps found;
    if (ratio == 0) {
      const double start = std::round(first * scale);
      const double extent = std::max(std::round(last * scale) - start, 1.0) / count;
      const int64_t limit = backward ? size : size - 1;  // as upstream
      auto edge = [&](double x) { return std::clamp<int64_t>(static_cast<int64_t>(start + x), 0, limit); };
      const int64_t low = edge(std::floor(b * extent)), high = edge(std::ceil((b + 1) * extent));
      for (int64_t i = low; i < high; ++i) found.push_back({i, 1.0 / static_cast<double>(high - low)});
      return found;
    }
    const double half = aligned ? 0.5 : 0, start = first * scale - half;
    double extent = last * scale - half - start;
    if (!aligned) extent = std::max(extent, 1.0);
    const double step = extent / count / static_cast<double>(ratio), top = static_cast<double>(size - 1);
    for (int64_t s = 0; s < ratio; ++s) {
      double y = start + b * extent / count + (static_cast<double>(s) + 0.5) * step;
      if (y < -1 || y > static_cast<double>(size)) continue;
      y = std::clamp(y, 0.0, top);
      const int64_t low = static_cast<int64_t>(y);
      const double upper = y - static_cast<double>(low), share = 1.0 / static_cast<double>(ratio);
      found.push_back({low, (1 - upper) * share});
      if (low + 1 < size) found.push_back({low + 1, upper * share});
    }
    return found;
  }
};

constexpr int64_t kRegions = 7, kImages = 2, kChannels = 5, kRows = 3, kColumns = 2, kHeight = 11, kWidth = 70;

// Regions in the image, across its borders, outside, empty and reversed. Multiples of 1/4.
Tensor regions(atalla_dtype d) {
  const double rows[kRegions][5] = {{0, 1.25, 2, 40.5, 9},  {1, 3, 1, 60, 10.75}, {1, -9.5, -4, 20, 6},
                                    {0, 60, 8, 90, 30},     {1, 5, 5, 5, 5},      {0, 30, 9, 11, 2},
                                    {1, 200, 200, 220, 230}};
  Tensor t(d, {kRegions, 5}, {1, 0});
  t.each([&](const Index& i) { t.set(i, rows[i[0]][i[1]]); });
  return t;
}

void mean_pool(const PoolRule& rule, atalla_dtype d, bool channels_last) {
  Random random;
  const std::vector<int> order = channels_last ? std::vector<int>{0, 2, 3, 1} : std::vector<int>{};
  const int64_t channels = rule.sensitive ? kChannels * kRows * kColumns : kChannels;
  const Index bins = {kRegions, kChannels, kRows, kColumns}, images = {kImages, channels, kHeight, kWidth};
  Tensor in(d, images, order), grad(d, bins, order), rois = regions(d), out(d, bins, order);
  Tensor grad_in(d, images, order), mapping(ATALLA_I32, bins);
  random.fill(in);
  random.fill(grad);
  auto parameters = [&](int outputs) { return describe_launch(d, outputs, {rule.ratio, rule.aligned}, {rule.scale}); };
  auto forward = parameters(rule.sensitive ? 2 : 1), backward = parameters(1);
  if (rule.sensitive) CHECK_EQ(run_kernel(rule.name, forward, {&out, &mapping, &in, &rois}), ATALLA_OK);
  else CHECK_EQ(run_kernel(rule.name, forward, {&out, &in, &rois}), ATALLA_OK);
  const std::string name = std::string(rule.name) + "_backward";
  CHECK_EQ(run_kernel(name.c_str(), backward, {&grad_in, &grad, &rois}), ATALLA_OK);
  Tensor expected = zeros(bins), gradient = zeros(images);
  int wrong_channels = 0;
  expected.each([&](const Index& i) {
    const int64_t channel = rule.sensitive ? (i[1] * kRows + i[2]) * kColumns + i[3] : i[1];
    const int64_t image = static_cast<int64_t>(rois.get({i[0], 0}));
    wrong_channels += rule.sensitive && mapping.get_integer(i) != channel;
    for (const bool back : {false, true}) {
      const Taps rows = rule.taps(rois.get({i[0], 2}), rois.get({i[0], 4}), kRows, i[2], kHeight, back);
      const Taps columns = rule.taps(rois.get({i[0], 1}), rois.get({i[0], 3}), kColumns, i[3], kWidth, back);
      for (const Tap& y : rows) {
        for (const Tap& x : columns) {
          const Index at = {image, channel, y.place, x.place};
          if (back) add(gradient, at, y.weight * x.weight * grad.get(i));
          else add(expected, i, y.weight * x.weight * in.get(at));
        }
      }
    }
  });
  CHECK_EQ(differences(out, expected), 0);
  CHECK_EQ(differences(grad_in, gradient), 0);
  CHECK_EQ(wrong_channels, 0);
  rois.set({kRegions - 1, 0}, kImages);
  auto again = parameters(1);
  CHECK_EQ(run_kernel(name.c_str(), again, {&grad_in, &grad, &rois}), ATALLA_ERR_FAULT_INDEX);
}

void max_pool(atalla_dtype d) {
  constexpr double kScale = 0.5;
  Random random;
  const Index bins = {kRegions, kChannels, kRows, kColumns}, images = {kImages, kChannels, kHeight, kWidth};
  Tensor in(d, images), grad(d, bins), rois = regions(d), out(d, bins), argmax(ATALLA_I32, bins), grad_in(d, images);
  random.fill(in);
  random.fill(grad);
  auto forward = describe_launch(d, 2, {}, {kScale}), backward = describe_launch(d, 1);
  CHECK_EQ(run_kernel("roi_pool", forward, {&out, &argmax, &in, &rois}), ATALLA_OK);
  CHECK_EQ(run_kernel("roi_pool_backward", backward, {&grad_in, &grad, &argmax, &rois}), ATALLA_OK);
  auto edges = [&](double first, double last, int64_t count, int64_t bin, int64_t size) {
    const double start = std::round(first * kScale), b = static_cast<double>(bin);
    const double extent = std::max(std::round(last * kScale) - start + 1, 1.0) / static_cast<double>(count);
    auto edge = [&](double x) { return std::clamp<int64_t>(static_cast<int64_t>(start + x), 0, size); };
    return std::pair<int64_t, int64_t>(edge(std::floor(b * extent)), edge(std::ceil((b + 1) * extent)));
  };
  Tensor gradient = zeros(images);
  int wrong = 0, empty = 0;
  out.each([&](const Index& i) {
    const int64_t image = static_cast<int64_t>(rois.get({i[0], 0}));
    const auto [top, bottom] = edges(rois.get({i[0], 2}), rois.get({i[0], 4}), kRows, i[2], kHeight);
    const auto [left, right] = edges(rois.get({i[0], 1}), rois.get({i[0], 3}), kColumns, i[3], kWidth);
    double largest = 0;
    int64_t place = -1;
    for (int64_t y = top; y < bottom; ++y) {
      for (int64_t x = left; x < right; ++x) {
        const double value = in.get({image, i[1], y, x});
        if (place < 0 || value > largest) largest = value, place = y * kWidth + x;
      }
    }
    wrong += out.get(i) != largest || argmax.get_integer(i) != place;
    empty += place < 0;
    if (place >= 0) add(gradient, {image, i[1], place / kWidth, place % kWidth}, grad.get(i));
  });
  CHECK_EQ(wrong, 0);
  CHECK(empty > 0);
  CHECK_EQ(differences(grad_in, gradient), 0);
}

// Columns [n, c, k, p, q] of 3 x 2 windows, with offsets of 2 groups of channels.
struct Deformable {
  static constexpr int64_t kBatch = 2, kMaps = 4, kGroups = 2, kTaps = 6, kHigh = 7, kWide = 9, kP = 5, kQ = 4;
  Tensor in, offset, mask, grad;
  bool masked;

  Deformable(atalla_dtype d, bool with_mask)
      : in(d, {kBatch, kMaps, kHigh, kWide}),
        offset(d, {kBatch, kGroups, kTaps, 2, kP, kQ}),
        mask(d, {kBatch, kGroups, kTaps, kP, kQ}),
        grad(d, {kBatch, kMaps, kTaps, kP, kQ}),
        masked(with_mask) {
    Random random;
    random.fill(in);
    random.fill(mask);
    random.fill(grad);
    // Between elements, so that derivatives exist: some windows leave the image.
    offset.each([&](const Index& i) {
      offset.set(i, static_cast<double>(random.below(9) - 4) + static_cast<double>(1 + random.below(7)) / 8);
    });
    if (!masked) mask.present = false;
  }
  atalla_launch_desc launch(int outputs) const { return describe_launch(in.dtype, outputs, {3, 2, 1, 2, 1, 0, 1, 3}); }
  double at(int64_t n, int64_t c, double y, double x) const {
    double sum = 0;
    const int64_t low_y = static_cast<int64_t>(std::floor(y)), low_x = static_cast<int64_t>(std::floor(x));
    for (int64_t a = low_y; a <= low_y + 1; ++a) {
      for (int64_t b = low_x; b <= low_x + 1; ++b) {
        if (a < 0 || a >= kHigh || b < 0 || b >= kWide) continue;
        sum += in.get({n, c, a, b}) * share(y, a) * share(x, b);
      }
    }
    return sum;
  }
  static double share(double at, int64_t element) { return 1 - std::fabs(at - static_cast<double>(element)); }
  // Of column i = [n, c, k, p, q].
  Index window(const Index& i) const { return {i[0], i[1] / (kMaps / kGroups), i[2], i[3], i[4]}; }
  double y(const Index& i) const {
    const Index at = window(i);
    return static_cast<double>(i[3] * 1 - 1 + i[2] / 2) + offset.get({at[0], at[1], at[2], 0, at[3], at[4]});
  }
  double x(const Index& i) const {
    const Index at = window(i);
    return static_cast<double>(i[4] * 2 + i[2] % 2 * 3) + offset.get({at[0], at[1], at[2], 1, at[3], at[4]});
  }
  double factor(const Index& i) const { return masked ? mask.get(window(i)) : 1; }
};

void deformable(atalla_dtype d, bool masked) {
  Deformable t(d, masked);
  Tensor columns(d, t.grad.sizes), grad_in(d, t.in.sizes), grad_offset(d, t.offset.sizes);
  Tensor grad_mask(d, {Deformable::kBatch, Deformable::kGroups, Deformable::kTaps, Deformable::kP, Deformable::kQ});
  if (!masked) grad_mask.present = false;
  auto forward = t.launch(1), backward = t.launch(1), offsets = t.launch(2);
  CHECK_EQ(run_kernel("deform_columns", forward, {&columns, &t.in, &t.offset, &t.mask}), ATALLA_OK);
  CHECK_EQ(run_kernel("deform_columns_backward", backward, {&grad_in, &t.grad, &t.offset, &t.mask}), ATALLA_OK);
  CHECK_EQ(
      run_kernel("deform_offset_backward", offsets, {&grad_offset, &grad_mask, &t.grad, &t.in, &t.offset, &t.mask}),
      ATALLA_OK);
  Tensor expected = zeros(columns.sizes), gradient = zeros(grad_in.sizes), of_offset = zeros(grad_offset.sizes);
  Tensor of_mask = zeros(t.mask.sizes);
  expected.each([&](const Index& i) {
    const double y = t.y(i), x = t.x(i), scale = t.factor(i), g = t.grad.get(i);
    const Index at = t.window(i);
    expected.set(i, t.at(i[0], i[1], y, x) * scale);
    add(of_mask, at, t.at(i[0], i[1], y, x) * g);
    constexpr double kStep = 1.0 / 64;  // linear between elements
    for (int64_t c = 0; c < 2; ++c) {
      const double dy = c == 0 ? kStep : 0, dx = c == 1 ? kStep : 0;
      const double slope = (t.at(i[0], i[1], y + dy, x + dx) - t.at(i[0], i[1], y - dy, x - dx)) / (2 * kStep);
      add(of_offset, {at[0], at[1], at[2], c, at[3], at[4]}, slope * scale * g);
    }
    for (int64_t a = 0; a < Deformable::kHigh; ++a) {
      for (int64_t b = 0; b < Deformable::kWide; ++b) {
        const double share = std::max(0.0, Deformable::share(y, a)) * std::max(0.0, Deformable::share(x, b));
        add(gradient, {i[0], i[1], a, b}, share * scale * g);
      }
    }
  });
  CHECK_EQ(differences(columns, expected), 0);
  CHECK_EQ(differences(grad_in, gradient), 0);
  CHECK_EQ(differences(grad_offset, of_offset), 0);
  if (masked) CHECK_EQ(differences(grad_mask, of_mask), 0);
  Tensor other(d, {1, Deformable::kMaps, Deformable::kHigh, Deformable::kWide});
  auto refused = t.launch(1);
  CHECK_EQ(run_kernel("deform_columns", refused, {&columns, &other, &t.offset, &t.mask}), ATALLA_ERR_ARGUMENT);
}

}  // namespace

int main() {
  for (const int threads : {1, 4}) {
    set_threads(threads);
    for (const atalla_dtype d : {ATALLA_F16, ATALLA_BF16, ATALLA_F32, ATALLA_F64}) {
      for (const double threshold : {0.0, 0.3, 0.55}) suppression(d, 200, threshold);
      for (const bool last : {false, true}) {
        mean_pool({"roi_align", 0.5, 2, false, false}, d, last);
        mean_pool({"roi_align", 1.0, 3, true, false}, d, last);
        mean_pool({"ps_roi_align", 0.5, 2, true, true}, d, last);
        mean_pool({"ps_roi_pool", 0.5, 0, false, true}, d, last);
      }
      max_pool(d);
      for (const bool masked : {false, true}) deformable(d, masked);
    }
  }
  return check_report();
}
