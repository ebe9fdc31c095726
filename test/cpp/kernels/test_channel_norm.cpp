// SPDX-License-Identifier: BSD-3-Clause
//
// channel_norm.statistics and .apply against a plain reference in double.
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

double tolerance(atalla_dtype d) {
  return d == ATALLA_F64 ? 1e-12 : d == ATALLA_F32 ? 4e-6 : d == ATALLA_F16 ? 2e-3 : 1.6e-2;
}

bool near(double a, double b, double eps) {
  return (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= eps * (1 + std::fabs(b));
}

atalla_dtype wide(atalla_dtype d) { return d == ATALLA_F64 ? ATALLA_F64 : ATALLA_F32; }

atalla_status statistics(std::vector<Tensor*> operands, double eps, double momentum, atalla_dtype compute) {
  atalla_launch_desc d{};
  d.n_outputs = 4;
  d.compute_dtype = compute;
  d.fparams[0] = eps, d.fparams[1] = momentum;
  return run_kernel("channel_norm.statistics", d, operands);
}

void check_statistics() {
  Random random;
  const Index shapes[] = {{1, 1, 1}, {3, 4, 5}, {7, 300, 3}, {200, 33, 1}, {2, 1, 40000}, {5, 40, 49}, {70, 6, 16}};
  for (const atalla_dtype dtype : {ATALLA_F16, ATALLA_BF16, ATALLA_F32, ATALLA_F64}) {
    for (const Index& shape : shapes) {
      for (const bool strided : {false, true}) {
        Tensor in(dtype, shape, strided ? std::vector<int>{2, 0, 1} : std::vector<int>{}, strided ? 2 : 1);
        Tensor mean(wide(dtype), {shape[1]}), rstd = mean, running_mean = mean, running_var = mean;
        in.each([&](const Index& i) { in.set(i, random.uniform(-1, 3)); });
        running_mean.each([&](const Index& i) { running_mean.set(i, 1), running_var.set(i, 2); });
        CHECK_EQ(statistics({&mean, &rstd, &running_mean, &running_var, &in}, 1e-5, 0.25, wide(dtype)), ATALLA_OK);
        int wrong = 0;
        const double n = static_cast<double>(shape[0] * shape[2]);
        for (int64_t c = 0; c < shape[1]; ++c) {
          double sum = 0, squares = 0;
          for (int64_t a = 0; a < shape[0]; ++a) {
            for (int64_t b = 0; b < shape[2]; ++b) sum += in.get({a, c, b});
          }
          const double mu = sum / n;
          for (int64_t a = 0; a < shape[0]; ++a) {
            for (int64_t b = 0; b < shape[2]; ++b) squares += std::pow(in.get({a, c, b}) - mu, 2);
          }
          const double limit = dtype == ATALLA_F64 ? 1e-11 : 2e-5;
          wrong += !near(mean.get({c}), mu, limit) + !near(running_mean.get({c}), 0.75 + 0.25 * mu, limit) +
                   !near(running_var.get({c}), 1.5 + 0.25 * squares / (n - 1), limit) +
                   (n > 1 && !near(rstd.get({c}), 1 / std::sqrt(squares / n + 1e-5), 10 * limit));
        }
        CHECK_EQ(wrong, 0);
      }
    }
  }
}

void check_apply() {
  Random random;
  const Index shapes[] = {{2, 1, 5, 40}, {9, 1, 70, 1}, {3, 4, 5, 7}, {2, 2, 300, 3}, {1, 1, 1, 20000}};
  for (const atalla_dtype dtype : {ATALLA_F16, ATALLA_BF16, ATALLA_F32, ATALLA_F64}) {
    for (const Index& shape : shapes) {
      for (int form = 0; form < 8; ++form) {  // weight and bias, statistics a group, strided
        const bool affine = form & 1, strided = form & 4;
        const uint32_t per_sample = form & 2 ? 0 : 1;  // bit 0: the same for all n
        Tensor in(dtype, shape, strided ? std::vector<int>{3, 1, 0, 2} : std::vector<int>{}), out(dtype, shape);
        const Index channels{shape[0], shape[1], shape[2]};
        Tensor mean(ATALLA_F32, channels, {}, 1, per_sample), rstd = mean, weight = mean, bias = mean;
        for (Tensor* t : {&in, &mean, &weight, &bias}) random.fill(*t);
        rstd.each([&](const Index& i) { rstd.set(i, random.uniform(0.5, 2)); });
        atalla_launch_desc d{};
        d.n_outputs = 1;
        d.compute_dtype = wide(dtype);
        CHECK_EQ(run_kernel("channel_norm.apply", d,
                            {&out, &in, &mean, &rstd, affine ? &weight : nullptr, affine ? &bias : nullptr}),
                 ATALLA_OK);
        int wrong = 0;
        out.each([&](const Index& i) {
          const Index c{i[0], i[1], i[2]};
          const double y = (in.get(i) - mean.get(c)) * rstd.get(c);
          wrong += !near(out.get(i), affine ? y * weight.get(c) + bias.get(c) : y, tolerance(dtype));
        });
        CHECK_EQ(wrong, 0);
      }
    }
  }
}

void check_variance_operand() {
  Tensor in(ATALLA_F32, {1, 1, 1, 2}), out = in, mean(ATALLA_F32, {1, 1, 1}), variance = mean;
  in.set({0, 0, 0, 0}, 3), in.set({0, 0, 0, 1}, 5), mean.set({0, 0, 0}, 1), variance.set({0, 0, 0}, 3);
  atalla_launch_desc d{};
  d.n_outputs = 1;
  d.compute_dtype = ATALLA_F32;
  d.fparams[0] = 1, d.iparams[0] = 1;
  CHECK_EQ(run_kernel("channel_norm.apply", d, {&out, &in, &mean, &variance, nullptr, nullptr}), ATALLA_OK);
  CHECK_EQ(out.get({0, 0, 0, 0}), 1.0);
  CHECK_EQ(out.get({0, 0, 0, 1}), 2.0);
}

void check_threads() {
  Random random;
  for (const atalla_dtype dtype : {ATALLA_F32, ATALLA_BF16}) {
    for (const Index& shape : {Index{4, 3, 50000}, Index{3000, 65, 1}, Index{900, 65, 3}}) {
      Tensor in(dtype, shape), mean(ATALLA_F32, {shape[1]}), rstd = mean, mean_two = mean, rstd_two = mean;
      random.fill(in);
      set_threads(1);
      CHECK_EQ(statistics({&mean, &rstd, nullptr, nullptr, &in}, 1e-5, 0, ATALLA_F32), ATALLA_OK);
      set_threads(2);
      CHECK_EQ(statistics({&mean_two, &rstd_two, nullptr, nullptr, &in}, 1e-5, 0, ATALLA_F32), ATALLA_OK);
      CHECK(mean.bytes == mean_two.bytes && rstd.bytes == rstd_two.bytes);
    }
  }
}

void check_errors() {
  Tensor in(ATALLA_F32, {2, 3, 4}), mean(ATALLA_F32, {3}), short_mean(ATALLA_F32, {2}), integers(ATALLA_I32, {3});
  CHECK_EQ(statistics({&short_mean, &mean, nullptr, nullptr, &in}, 0, 0, ATALLA_F32), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(statistics({&mean, nullptr, nullptr, nullptr, &in}, 0, 0, ATALLA_F32), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(statistics({&mean, &integers, nullptr, nullptr, &in}, 0, 0, ATALLA_F32), ATALLA_ERR_UNSUPPORTED);
  CHECK_EQ(statistics({&mean, &mean, nullptr, nullptr, &mean}, 0, 0, ATALLA_F32), ATALLA_ERR_ARGUMENT);
}

}  // namespace

int main() {
  check_statistics();
  check_apply();
  check_variance_operand();
  check_threads();
  check_errors();
  return check_report();
}
