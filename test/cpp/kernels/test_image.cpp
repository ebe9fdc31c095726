// SPDX-License-Identifier: BSD-3-Clause
//
// Pooling, resampling, padding, shuffling, im2col and grid sampling against plain references.
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
  return d == ATALLA_F64 ? 1e-13 : d == ATALLA_F32 ? 2e-6 : d == ATALLA_F16 ? 2e-3 : d == ATALLA_BF16 ? 1.6e-2 : 0;
}

// Elements of `out` that differ from f(index).
template <class F>
int differences(const Tensor& out, F&& f) {
  int wrong = 0;
  out.each([&](const Index& i) {
    const double e = f(i), x = out.get(i);
    const bool same = (std::isnan(e) && std::isnan(x)) || x == e;
    wrong += !same && !(std::fabs(x - e) <= tolerance(out.dtype) * (1 + std::fabs(e)));
  });
  return wrong;
}

const std::vector<int> kFirst = {0, 1, 2, 3, 4}, kLast = {0, 2, 3, 4, 1};

struct Window {
  Index kernel, stride, padding, dilation;
  int64_t out(int64_t in, int d) const {
    return (in + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  }
};

// Calls f with the input index of every tap of output i that lies inside.
template <class F>
void each_tap(const Window& w, const Tensor& in, const Index& i, F&& f) {
  for (int64_t a = 0; a < w.kernel[0]; ++a) {
    for (int64_t b = 0; b < w.kernel[1]; ++b) {
      for (int64_t c = 0; c < w.kernel[2]; ++c) {
        const int64_t k[3] = {a, b, c};
        Index at = i;
        bool inside = true;
        for (int d = 0; d < 3; ++d) {
          at[2 + d] = i[2 + d] * w.stride[d] - w.padding[d] + k[d] * w.dilation[d];
          inside = inside && at[2 + d] >= 0 && at[2 + d] < in.sizes[2 + d];
        }
        if (inside) f(at);
      }
    }
  }
}

void pools() {
  Random random;
  const Window windows[] = {{{1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}},
                            {{1, 2, 3}, {1, 1, 1}, {0, 0, 1}, {1, 2, 1}},
                            {{2, 2, 2}, {2, 2, 3}, {1, 0, 1}, {1, 1, 1}}};
  const Index shape = {2, 5, 4, 7, 9};
  for (const atalla_dtype dtype : {ATALLA_F32, ATALLA_BF16, ATALLA_F64, ATALLA_U8, ATALLA_I64}) {
    for (const auto& order : {kFirst, kLast}) {
      for (const Window& w : windows) {
        Tensor in(dtype, shape, order);
        random.fill(in);
        if (tolerance(dtype) > 0) in.set({0, 1, 1, 3, 4}, NAN), in.set({0, 2, 0, 0, 0}, -INFINITY);
        Index sizes = shape, p = w.kernel;
        for (int d = 0; d < 3; ++d) sizes[2 + d] = w.out(shape[2 + d], d);
        p.insert(p.end(), w.stride.begin(), w.stride.end());
        p.insert(p.end(), w.padding.begin(), w.padding.end());
        Tensor out(dtype, sizes, order), at(ATALLA_I64, sizes, order), mean(dtype, sizes, order);
        Index with_dilation = p, with_count = p;
        with_dilation.insert(with_dilation.end(), w.dilation.begin(), w.dilation.end());
        auto d = describe_launch(dtype, 2, with_dilation);
        CHECK_EQ(run_kernel("pool.max", d, {&out, &at, &in}), ATALLA_OK);
        int wrong = 0;
        out.each([&](const Index& i) {
          double best = -INFINITY;
          int64_t where = -1;
          each_tap(w, in, i, [&](const Index& tap) {
            const double v = in.get(tap);
            if (where >= 0 && !(v > best) && !std::isnan(v)) return;
            best = v, where = (tap[2] * shape[3] + tap[3]) * shape[4] + tap[4];
          });
          wrong += !(out.get(i) == best || (std::isnan(best) && std::isnan(out.get(i))));
          wrong += at.get_integer(i) != where;
        });
        CHECK_EQ(wrong, 0);
        if (w.dilation[1] != 1) continue;
        auto average = describe_launch(dtype, 1, with_count);  // padding does not count
        CHECK_EQ(run_kernel("pool.average", average, {&mean, &in}), ATALLA_OK);
        CHECK_EQ(differences(mean,
                             [&](const Index& i) {
                               double sum = 0, count = 0;
                               each_tap(w, in, i, [&](const Index& tap) { sum += in.get(tap), ++count; });
                               return tolerance(dtype) > 0 ? sum / count : std::trunc(sum / count);
                             }),
                 0);
      }
    }
  }
}

void scatter() {
  Tensor in(ATALLA_F16, {1, 1, 1, 1, 3}), at(ATALLA_I64, {1, 1, 1, 1, 3}), out(ATALLA_F16, {1, 1, 1, 2, 2});
  for (int64_t i = 0; i < 3; ++i) in.set({0, 0, 0, 0, i}, static_cast<double>(i + 1)), at.set({0, 0, 0, 0, i}, 2);
  auto put = describe_launch(ATALLA_F16, 1, {0}), add = describe_launch(ATALLA_F16, 1, {1});
  CHECK_EQ(run_kernel("pool.scatter", put, {&out, &in, &at}), ATALLA_OK);
  CHECK(out.get({0, 0, 0, 1, 0}) == 3 && out.get({0, 0, 0, 0, 0}) == 0);
  CHECK_EQ(run_kernel("pool.scatter", add, {&out, &in, &at}), ATALLA_OK);
  CHECK_EQ(out.get({0, 0, 0, 1, 0}), 6);
  at.set({0, 0, 0, 0, 1}, 4);
  CHECK_EQ(run_kernel("pool.scatter", add, {&out, &in, &at}), ATALLA_ERR_FAULT_INDEX);
}

// resample.linear and its gradient: <A x, y> = <x, A' y>, and A x against the definition.
void resampling() {
  Random random;
  for (const atalla_dtype dtype : {ATALLA_F32, ATALLA_F64, ATALLA_BF16}) {
    for (const auto& order : {kFirst, kLast}) {
      for (const bool align : {false, true}) {
        const Index from = {2, 3, 2, 5, 7}, to = {2, 3, 3, 9, 4};
        Tensor in(dtype, from, order), out(dtype, to, order), grad(dtype, to, order), back(dtype, from, order);
        random.fill(in), random.fill(grad);
        auto d = describe_launch(dtype, 1, {align});
        CHECK_EQ(run_kernel("resample.linear", d, {&out, &in}), ATALLA_OK);
        const auto expected = [&](const Index& i) {
          double sum = 0;
          for (int corner = 0; corner < 8; ++corner) {
            Index at = i;
            double weight = 1;
            for (int k = 0; k < 3; ++k) {
              const double n = static_cast<double>(from[2 + k]), m = static_cast<double>(to[2 + k]);
              const double o = static_cast<double>(i[2 + k]);
              const double x = std::max(0.0, align ? o * (n - 1) / (m - 1) : (o + 0.5) * n / m - 0.5);
              const double low = std::min(std::floor(x), n - 1), high = std::min(low + 1, n - 1);
              const bool upper = (corner >> k & 1) != 0;
              at[2 + k] = static_cast<int64_t>(upper ? high : low);
              weight *= upper ? x - low : 1 - (x - low);
            }
            sum += weight * in.get(at);
          }
          return sum;
        };
        CHECK_EQ(differences(out, expected), 0);
        auto b = describe_launch(dtype, 1, {align});
        CHECK_EQ(run_kernel("resample_backward.linear", b, {&back, &grad}), ATALLA_OK);
        double forward = 0, backward = 0;
        out.each([&](const Index& i) { forward += expected(i) * grad.get(i); });
        in.each([&](const Index& i) { backward += in.get(i) * back.get(i); });
        CHECK(std::fabs(forward - backward) <= 20 * tolerance(dtype) * (1 + std::fabs(forward)));
      }
    }
  }
  // Bytes: weights in fixed point, so that halfway values round up.
  Tensor bytes(ATALLA_U8, {1, 1, 1, 1, 2}), wide(ATALLA_U8, {1, 1, 1, 1, 4});
  bytes.set({0, 0, 0, 0, 0}, 0), bytes.set({0, 0, 0, 0, 1}, 255);
  auto d = describe_launch(ATALLA_U8, 1, {0});
  CHECK_EQ(run_kernel("resample.linear", d, {&wide, &bytes}), ATALLA_OK);
  CHECK(wide.get({0, 0, 0, 0, 0}) == 0 && wide.get({0, 0, 0, 0, 1}) == 64 && wide.get({0, 0, 0, 0, 2}) == 191);
}

void moving() {
  Random random;
  for (const atalla_dtype dtype : {ATALLA_BOOL, ATALLA_I16, ATALLA_F32, ATALLA_F64}) {
    for (const std::vector<int>& order : {std::vector<int>{0, 1, 2}, {2, 0, 1}}) {
      const Index shape = {3, 40, 5};
      Tensor in(dtype, shape, order), out(dtype, shape), wide(dtype, {3, 45, 6});
      random.fill(in);
      auto flip = describe_launch(dtype, 1, {0b110}), roll = describe_launch(dtype, 1, {1, -3, 7});
      CHECK_EQ(run_kernel("flip", flip, {&out, &in}), ATALLA_OK);
      CHECK_EQ(differences(out, [&](const Index& i) { return in.get({i[0], 39 - i[1], 4 - i[2]}); }), 0);
      CHECK_EQ(run_kernel("roll", roll, {&out, &in}), ATALLA_OK);
      CHECK_EQ(
          differences(out, [&](const Index& i) { return in.get({(i[0] + 2) % 3, (i[1] + 3) % 40, (i[2] + 3) % 5}); }),
          0);
      auto reflect = describe_launch(dtype, 1, {0, 2, 3}), replicate = describe_launch(dtype, 1, {0, 2, 3});
      CHECK_EQ(run_kernel("pad.reflect", reflect, {&wide, &in}), ATALLA_OK);
      const auto mirror = [](int64_t x, int64_t n) { return x < 0 ? -x : x < n ? x : 2 * n - 2 - x; };
      CHECK_EQ(
          differences(wide, [&](const Index& i) { return in.get({i[0], mirror(i[1] - 2, 40), mirror(i[2] - 3, 5)}); }),
          0);
      CHECK_EQ(run_kernel("pad.replicate", replicate, {&wide, &in}), ATALLA_OK);
      CHECK_EQ(differences(wide,
                           [&](const Index& i) {
                             return in.get(
                                 {i[0], std::clamp<int64_t>(i[1] - 2, 0, 39), std::clamp<int64_t>(i[2] - 3, 0, 4)});
                           }),
               0);
      auto far = describe_launch(dtype, 1, {0, 0, 6});
      CHECK_EQ(run_kernel("pad.reflect", far, {&wide, &in}), ATALLA_ERR_ARGUMENT);
    }
  }
}

void columns() {
  Random random;
  for (const atalla_dtype dtype : {ATALLA_F32, ATALLA_F16, ATALLA_F64}) {
    const Index shape = {2, 3, 6, 7}, p = {2, 1, 1, 2, 2, 3};  // dilation, padding, stride
    const int64_t kh = 2, kw = 3, oh = (6 + 2 - 2 - 1) / 2 + 1, ow = (7 + 4 - 2 - 1) / 3 + 1;
    Tensor in(dtype, shape), out(dtype, {2, 3, kh, kw, oh, ow}), back(dtype, shape);
    random.fill(in);
    const auto element = [&](const Index& i, int d) { return i[4 + d] * p[4 + d] - p[2 + d] + i[2 + d] * p[d]; };
    auto d = describe_launch(dtype, 1, p);
    CHECK_EQ(run_kernel("im2col", d, {&out, &in}), ATALLA_OK);
    Tensor count(ATALLA_F64, shape);
    count.each([&](const Index& i) { count.set(i, 0); });
    CHECK_EQ(differences(out,
                         [&](const Index& i) {
                           const int64_t h = element(i, 0), w = element(i, 1);
                           if (h < 0 || h >= 6 || w < 0 || w >= 7) return 0.0;
                           count.set({i[0], i[1], h, w}, count.get({i[0], i[1], h, w}) + 1);
                           return in.get({i[0], i[1], h, w});
                         }),
             0);
    auto b = describe_launch(dtype, 1, p);
    CHECK_EQ(run_kernel("col2im", b, {&back, &out}), ATALLA_OK);
    CHECK_EQ(differences(back, [&](const Index& i) { return in.get(i) * count.get(i); }), 0);
  }
}

void grids() {
  // The identity grid gives the image back; a point far outside gives 0, or the border.
  Tensor in(ATALLA_F32, {1, 2, 1, 3, 4}), out = in, grid(ATALLA_F32, {1, 1, 3, 4, 2});
  Random random;
  random.fill(in);
  grid.each([&](const Index& i) {
    grid.set(i, i[4] == 0 ? (static_cast<double>(i[3]) / 3) * 2 - 1 : static_cast<double>(i[2]) - 1);
  });
  for (const int64_t mode : {0, 1, 2}) {
    for (const int64_t padding : {0, 1, 2}) {
      auto d = describe_launch(ATALLA_F32, 1, {mode, padding, 1});
      CHECK_EQ(run_kernel("grid_sample", d, {&out, &in, &grid}), ATALLA_OK);
      CHECK_EQ(differences(out, [&](const Index& i) { return in.get(i); }), 0);
    }
  }
  grid.set({0, 0, 0, 0, 0}, 5), grid.set({0, 0, 0, 0, 1}, 5);
  auto zeros = describe_launch(ATALLA_F32, 1, {0, 0, 0}), border = describe_launch(ATALLA_F32, 1, {0, 1, 0});
  CHECK_EQ(run_kernel("grid_sample", zeros, {&out, &in, &grid}), ATALLA_OK);
  CHECK_EQ(out.get({0, 1, 0, 0, 0}), 0);
  CHECK_EQ(run_kernel("grid_sample", border, {&out, &in, &grid}), ATALLA_OK);
  CHECK_EQ(out.get({0, 1, 0, 0, 0}), in.get({0, 1, 0, 2, 3}));
}

void threads() {
  Random random;
  Tensor in(ATALLA_F32, {2, 8, 1, 60, 70}), one(ATALLA_F32, {2, 8, 1, 90, 33}), two = one;
  random.fill(in);
  for (const char* kernel : {"resample.cubic", "resample.linear_aa", "pool.adaptive_average"}) {
    auto d = describe_launch(ATALLA_F32, 1);
    set_threads(1);
    CHECK_EQ(run_kernel(kernel, d, {&one, &in}), ATALLA_OK);
    set_threads(2);
    CHECK_EQ(run_kernel(kernel, d, {&two, &in}), ATALLA_OK);
    CHECK(one.bytes == two.bytes);
  }
}

}  // namespace

int main() {
  pools();
  scatter();
  resampling();
  moving();
  columns();
  grids();
  threads();
  return check_report();
}
