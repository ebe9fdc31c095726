// SPDX-License-Identifier: BSD-3-Clause
//
// Resampling and grid sampling against plain references, and pooling of numbers that are not finite.
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

// The place is that of the last NaN, or of the first largest number.
void pool_of_special_values(const std::vector<int>& order) {
  const Index window = {1, 1, 2, 1, 1, 2, 0, 0, 0};
  Tensor in(ATALLA_F32, {1, 5, 1, 1, 10}, order), out(ATALLA_F32, {1, 5, 1, 1, 5}, order), mean = out;
  Tensor at(ATALLA_I64, out.sizes, order);
  const double values[] = {NAN, 1, -INFINITY, -INFINITY, 2, INFINITY, NAN, NAN, 2, 4};
  const double largest[] = {NAN, -INFINITY, INFINITY, NAN, 4}, places[] = {0, 2, 5, 7, 9};
  in.each([&](const Index& i) { in.set(i, values[i[4]]); });
  auto max = describe_launch(ATALLA_F32, 2, window), average = describe_launch(ATALLA_F32, 1, window);
  for (int d = 0; d < 3; ++d) max.iparams[9 + d] = 1;
  CHECK_EQ(run_kernel("pool.max", max, {&out, &at, &in}), ATALLA_OK);
  CHECK_EQ(run_kernel("pool.average", average, {&mean, &in}), ATALLA_OK);
  CHECK_EQ(differences(out, [&](const Index& i) { return largest[i[4]]; }), 0);
  CHECK_EQ(differences(mean, [&](const Index& i) { return i[4] == 4 ? 3 : largest[i[4]]; }), 0);
  CHECK_EQ(differences(at, [&](const Index& i) { return places[i[4]]; }), 0);
}

}  // namespace

int main() {
  for (const auto& order : {kFirst, kLast}) pool_of_special_values(order);
  resampling();
  grids();
  return check_report();
}
