// SPDX-License-Identifier: BSD-3-Clause
//
// Numerics of reductions, scans, normalizations and attention: NaN, infinities, subnormal results, cancellation, long
// sums. Small finite numbers are compared with the values of the contracts (test/kernels).
#include <algorithm>
#include <numeric>

#include "check.h"
#include "kernels/harness.h"

namespace {

using namespace kernel_test;
using Index = std::vector<int64_t>;
using Values = std::vector<double>;

atalla_status run(const char* kernel, atalla_dtype compute, int outputs, std::vector<Tensor*> operands, int64_t iparam,
                  double fparam = 1) {
  atalla_launch_desc desc{};
  desc.n_outputs = static_cast<uint16_t>(outputs);
  desc.compute_dtype = compute;
  desc.iparams[0] = iparam, desc.fparams[0] = fparam;
  return run_kernel(kernel, desc, operands);
}

bool close(double got, double expected, double relative) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return got == expected;
  return std::fabs(got - expected) <= relative * std::max(1.0, std::fabs(expected));
}

void set_all(Tensor& t, const Values& values) {
  for (size_t i = 0; i < values.size(); ++i) t.set({static_cast<int64_t>(i)}, values[i]);
}

// A NaN wins, the first one where the place counts.
void nan_in_reductions() {
  for (const int64_t mask : {1, 2, 3}) {
    const Index kept = {mask & 1 ? 1 : 50, mask & 2 ? 1 : 60}, at = {mask & 1 ? 0 : 20, mask & 2 ? 0 : 30};
    Tensor in(ATALLA_F32, {50, 60}), largest(ATALLA_F32, kept), smallest = largest, place(ATALLA_I64, kept);
    Random random;
    random.fill(in);
    in.set({20, 30}, NAN), in.set({20, 31}, NAN), in.set({21, 30}, NAN);
    CHECK_EQ(run("reduce.amax", ATALLA_F32, 1, {&largest, &in}, mask), ATALLA_OK);
    CHECK_EQ(run("reduce.amin", ATALLA_F32, 1, {&smallest, &in}, mask), ATALLA_OK);
    CHECK_EQ(run("reduce.argmax", ATALLA_F32, 1, {&place, &in}, mask), ATALLA_OK);
    CHECK(std::isnan(largest.get(at)) && std::isnan(smallest.get(at)));
    CHECK_EQ(place.get_integer(at), mask == 1 ? 20 : mask == 2 ? 30 : 20 * 60 + 30);
  }
  Tensor x(ATALLA_F32, {2, 1000}), sum(ATALLA_F32, {2, 1}), count(ATALLA_I64, {2, 1});
  x.each([&](const Index& i) { x.set(i, i[1] % 3 == 0 ? NAN : static_cast<double>(i[1] % 3 - 1)); });
  CHECK_EQ(run("reduce.nansum", ATALLA_F32, 1, {&sum, &x}, 2), ATALLA_OK);
  CHECK_EQ(sum.get({1, 0}), 333);
  CHECK_EQ(run("reduce.count_nonzero", ATALLA_F32, 1, {&count, &x}, 2), ATALLA_OK);
  CHECK_EQ(count.get({0, 0}), 334 + 333);
}

// Rows around the lengths of vector lanes and blocks, with infinities of both signs and a NaN anywhere or nowhere.
void extremes() {
  Random random;
  for (const atalla_dtype d : {ATALLA_F32, ATALLA_F64, ATALLA_F16, ATALLA_BF16}) {
    for (const int64_t n : {15, 16, 17, 63, 64, 65, 127, 129, 255, 257, 1023, 1025, 70000}) {
      for (const int64_t nan_at : {int64_t{-1}, int64_t{0}, n / 3, n - 1}) {
        Tensor in(d, {n}), out(d, {1});
        random.fill(in);
        if (n % 2 == 1) in.set({n / 2}, INFINITY), in.set({n / 4}, -INFINITY);
        if (nan_at >= 0) in.set({nan_at}, NAN);
        double most = -INFINITY, least = INFINITY, magnitude = 0;
        in.each([&](const Index& i) {
          const double x = in.get(i);
          most = std::max(most, x), least = std::min(least, x), magnitude = std::max(magnitude, std::fabs(x));
        });
        if (nan_at >= 0) most = least = magnitude = NAN;
        const std::pair<const char*, double> expected[] = {
            {"reduce.amax", most}, {"reduce.amin", least}, {"reduce.norm_inf", magnitude}};
        for (const auto& [kernel, value] : expected) {
          CHECK_EQ(run(kernel, d, 1, {&out, &in}, 1), ATALLA_OK);
          CHECK(close(out.get({0}), value, 0));
        }
      }
    }
  }
}

// Long sums are pairwise, and have the same bits on one thread and two.
void long_sums() {
  const std::pair<Index, int64_t> cases[] = {{{600011}, 1}, {{3, 200003}, 2}, {{200003, 3}, 1}, {{500, 700}, 1}};
  for (const auto& [sizes, mask] : cases) {
    Tensor in(ATALLA_F32, sizes);
    Random random;
    in.each([&](const Index& i) { in.set(i, random.uniform(0, 1)); });
    for (const char* kernel : {"reduce.sum", "reduce.var", "reduce.logsumexp"}) {
      Index kept = sizes;
      kept[static_cast<size_t>(mask - 1)] = 1;
      Tensor one(ATALLA_F32, kept), two = one;
      set_threads(1);
      CHECK_EQ(run(kernel, ATALLA_F32, 1, {&one, &in}, mask), ATALLA_OK);
      set_threads(2);
      CHECK_EQ(run(kernel, ATALLA_F32, 1, {&two, &in}, mask), ATALLA_OK);
      CHECK(one.bytes == two.bytes);
      double sum = 0;
      in.each([&](const Index& i) { sum += in.get(i); });
      if (sizes.size() == 1 && std::strcmp(kernel, "reduce.sum") == 0) CHECK(close(one.get({0}), sum, 3e-7));
    }
  }
}

void scans() {
  Tensor in(ATALLA_I8, {4}), out(ATALLA_I8, {4}), x(ATALLA_F32, {4}), y = x;
  set_all(in, {100, 100, 100, 100});
  CHECK_EQ(run("cumsum", ATALLA_I8, 1, {&out, &in}, 0), ATALLA_OK);
  CHECK(out.get({1}) == -56 && out.get({3}) == -112);  // 200 - 256, 400 - 512
  set_all(x, {1, INFINITY, -INFINITY, 2});
  CHECK_EQ(run("cumsum", ATALLA_F32, 1, {&y, &x}, 0), ATALLA_OK);
  CHECK(y.get({0}) == 1 && y.get({1}) == INFINITY && std::isnan(y.get({2})) && std::isnan(y.get({3})));
  Tensor big(ATALLA_I32, {1}), real(ATALLA_F32, {1});
  big.set({0}, 16777217);  // 2^24 + 1 is not an F32
  CHECK_EQ(run("cumsum", ATALLA_F32, 1, {&real, &big}, 0), ATALLA_OK);
  CHECK_EQ(real.get({0}), 16777216);

  Tensor wide(ATALLA_F64, {200}), sum = wide;
  for (int64_t i = 0; i < 200; ++i) wide.set({i}, 0.9 + 0.001 * static_cast<double>(i));
  CHECK_EQ(run("logcumsumexp", ATALLA_F64, 1, {&sum, &wide}, 0), ATALLA_OK);
  double total = 0;
  for (int64_t i = 0; i < 200; ++i) {
    total += std::exp(wide.get({i}));
    CHECK(std::fabs(sum.get({i}) - std::log(total)) <= 1e-12);
  }
  set_all(wide, {-INFINITY, 1, INFINITY, INFINITY, NAN});
  CHECK_EQ(run("logcumsumexp", ATALLA_F64, 1, {&sum, &wide}, 0), ATALLA_OK);
  CHECK(sum.get({0}) == -INFINITY && sum.get({1}) == 1 && sum.get({3}) == INFINITY && std::isnan(sum.get({5})));
}

void distances() {
  Tensor x(ATALLA_F32, {1, 2, 37}), out(ATALLA_F32, {1, 2, 2});
  Random random;
  random.fill(x);
  double most = 0;
  for (int64_t k = 0; k < 37; ++k) most = std::max(most, std::fabs(x.get({0, 0, k}) - x.get({0, 1, k})));
  CHECK_EQ(run("cdist", ATALLA_F32, 1, {&out, &x, &x}, 0, INFINITY), ATALLA_OK);
  CHECK(close(out.get({0, 0, 1}), most, 1e-6) && out.get({0, 1, 1}) == 0);
  x.set({0, 1, 20}, NAN);
  CHECK_EQ(run("cdist", ATALLA_F32, 1, {&out, &x, &x}, 0, INFINITY), ATALLA_OK);
  CHECK(std::isnan(out.get({0, 0, 1})) && out.get({0, 0, 0}) == 0);
  CHECK_EQ(run("cdist", ATALLA_F32, 1, {&out, &x, &x}, 0, -1), ATALLA_ERR_ARGUMENT);
}

// A large mean: a one-pass variance would lose every digit. Rows of 5000 are read in pieces.
void cancellation() {
  Random random;
  Tensor in(ATALLA_F32, {8, 5000}), out = in, mean(ATALLA_F32, {8}), rstd = mean;
  in.each([&](const Index& i) { in.set(i, 10000 + static_cast<double>(random.below(3))); });
  CHECK_EQ(run("layer_norm", ATALLA_F32, 3, {&out, &mean, &rstd, &in}, 0, 1e-5), ATALLA_OK);
  for (int64_t r = 0; r < 8; ++r) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < 5000; ++i) sum += in.get({r, i}) / 5000;
    for (int64_t i = 0; i < 5000; ++i) squares += std::pow(in.get({r, i}) - sum, 2) / 5000;
    CHECK(close(rstd.get({r}), 1 / std::sqrt(squares + 1e-5), 2e-3));
    for (int64_t i = 0; i < 5000; ++i) CHECK(close(out.get({r, i}), (in.get({r, i}) - sum) * rstd.get({r}), 4e-3));
  }
}

double softmax_of(const Values& row, size_t i, bool log) {
  double max = -INFINITY, sum = 0;
  for (const double x : row) max = std::isnan(x) || std::isnan(max) ? NAN : std::max(max, x);
  if (!std::isfinite(max)) return NAN;
  for (const double x : row) sum += std::exp(x - max);
  return log ? row[i] - max - std::log(sum) : std::exp(row[i] - max) / sum;
}

void softmax_of_special_values() {
  const double inf = INFINITY;
  const double rows[6][19] = {{-inf, 1, 2, -inf, 3},
                              {-inf, -inf, -inf, -inf},
                              {1, NAN, 2},
                              {inf, 1, 2, inf},
                              {-200, 0, -90, -103.5, -104.5, -87, 1e30, -1e30},
                              {3e38, -3e38, 1e-40, 0, -0.0}};
  for (const atalla_dtype dtype : {ATALLA_F32, ATALLA_F64}) {
    for (const bool columns : {false, true}) {
      Tensor in(dtype, {6, 19}, columns ? std::vector<int>{1, 0} : std::vector<int>{});
      Tensor out = in;
      in.each([&](const Index& i) { in.set(i, i[0] == 1 ? -inf : rows[i[0]][i[1]]); });
      for (const bool log : {false, true}) {
        CHECK_EQ(run(log ? "log_softmax" : "softmax", dtype, 1, {&out, &in}, 1), ATALLA_OK);
        for (int64_t r = 0; r < 6; ++r) {
          Values row;
          for (int64_t i = 0; i < 19; ++i) row.push_back(in.get({r, i}));
          for (int64_t i = 0; i < 19; ++i) {
            const double exact = softmax_of(row, static_cast<size_t>(i), log);
            const double expected = dtype == ATALLA_F32 ? static_cast<float>(exact) : exact;  // it may overflow
            CHECK(close(out.get({r, i}), expected, dtype == ATALLA_F32 ? 1e-6 : 1e-14));
          }
        }
      }
    }
  }
}

// Subnormal probabilities are kept, and rounded once.
void gradual_underflow() {
  Tensor in(ATALLA_F32, {40}), out(ATALLA_F32, {40});
  Values row;
  for (int64_t i = 0; i < 40; ++i) row.push_back(i == 0 ? 0 : -85 - 0.5 * static_cast<double>(i));
  set_all(in, row);
  CHECK_EQ(run("softmax", ATALLA_F32, 1, {&out, &in}, 0), ATALLA_OK);
  for (size_t i = 0; i < 40; ++i) {
    const double expected = softmax_of(row, i, false);
    CHECK(std::fabs(out.get({static_cast<int64_t>(i)}) - expected) <= 3e-7 * expected + 0x1p-149);
  }
}

// The same row gives the same bits wherever it stands. The rows of 9000 are computed in pieces.
void rows_of_softmax(int dim, int64_t rows, int64_t size, bool log) {
  Random random;
  Tensor in(ATALLA_F32, dim ? Index{rows, size} : Index{size, rows}, {}, size > 8192 ? 2 : 1), out = in;
  Values row;
  for (int64_t k = 0; k < size; ++k) {
    const double x = random.uniform(-20, 20);
    for (int64_t r = 0; r < rows; ++r) in.set(dim ? Index{r, k} : Index{k, r}, x);
    row.push_back(in.get(dim ? Index{0, k} : Index{k, 0}));
  }
  CHECK_EQ(run(log ? "log_softmax" : "softmax", ATALLA_F32, 1, {&out, &in}, dim), ATALLA_OK);
  for (int64_t k = 0; k < size; k += 37)
    CHECK(close(out.get(dim ? Index{0, k} : Index{k, 0}), softmax_of(row, static_cast<size_t>(k), log), 2e-6));
  int wrong = 0;
  out.each([&](const Index& i) { wrong += out.get(i) != out.get(dim ? Index{0, i[1]} : Index{i[0], 0}); });
  CHECK_EQ(wrong, 0);
}

// Several tiles of keys, with scores large enough for the running maximum to matter; query 1 sees nothing.
void attention(int64_t keys, double amplitude, bool masked) {
  constexpr int64_t kQueries = 90, kWidth = 24;
  Random random;
  Tensor q(ATALLA_F32, {1, 1, kQueries, kWidth}), k(ATALLA_F32, {1, 1, keys, kWidth}), v = k, out = q;
  Tensor lse(ATALLA_F32, {1, 1, kQueries}), mask(ATALLA_F32, {1, 1, kQueries, keys});
  random.fill(q), random.fill(k), random.fill(v);
  q.each([&](const Index& i) { q.set(i, amplitude * q.get(i)); });
  mask.each([&](const Index& i) {
    mask.set(i, !masked ? 0 : i[2] == 1 || random.below(4) == 0 ? -INFINITY : random.uniform(-1, 1));
  });
  CHECK_EQ(run("attention", ATALLA_F32, 2, {&out, &lse, &q, &k, &v, &mask}, masked ? 0 : 1, 0.2), ATALLA_OK);
  int wrong = 0;
  for (int64_t i = 0; i < kQueries; ++i) {
    Values scores;
    for (int64_t j = 0; j < keys && (masked || j <= i); ++j) {  // without the mask, causal
      double x = 0;
      for (int64_t p = 0; p < kWidth; ++p) x += q.get({0, 0, i, p}) * k.get({0, 0, j, p});
      scores.push_back(0.2 * x + mask.get({0, 0, i, j}));
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    const bool empty = most == -INFINITY;
    for (double& x : scores) x = empty ? 0 : std::exp(x - most);
    const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    wrong += !close(lse.get({0, 0, i}), empty ? -INFINITY : most + std::log(sum), 4e-6 * amplitude);
    for (int64_t c = 0; c < kWidth; ++c) {
      double expected = 0;
      for (size_t j = 0; j < scores.size(); ++j) expected += scores[j] * v.get({0, 0, static_cast<int64_t>(j), c});
      wrong += !close(out.get({0, 0, i, c}), empty ? 0 : expected / sum, 4e-6 * amplitude);
    }
  }
  CHECK_EQ(wrong, 0);
}

}  // namespace

int main() {
  nan_in_reductions();
  extremes();
  long_sums();
  scans();
  distances();
  cancellation();
  softmax_of_special_values();
  gradual_underflow();
  for (const bool log : {false, true}) {
    for (const int dim : {0, 1}) rows_of_softmax(dim, 200, 333, log);
    rows_of_softmax(1, 3, 9000, log);
  }
  for (const int64_t keys : {600, 859}) {
    for (const double amplitude : {1.0, 30.0}) {
      for (const bool masked : {false, true}) attention(keys, amplitude, masked);
    }
  }
  return check_report();
}
