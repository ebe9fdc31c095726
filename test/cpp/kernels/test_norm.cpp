// SPDX-License-Identifier: BSD-3-Clause
//
// layer_norm and rms_norm against a plain reference in double.
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

atalla_status launch(std::vector<Tensor*> operands, double eps, atalla_dtype compute, int alias = -1,
                     const char* kernel = "layer_norm") {
  atalla_launch_desc d{};
  d.n_outputs = 3;
  d.compute_dtype = compute;
  d.fparams[0] = eps;
  return run_kernel(kernel, d, operands, alias);
}

double tolerance(atalla_dtype d) {
  return d == ATALLA_F64 ? 1e-12 : d == ATALLA_F32 ? 2e-6 : d == ATALLA_F16 ? 1e-3 : 1e-2;
}

bool near(double a, double b, double eps) {
  return (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= eps * (1 + std::fabs(b));
}

void compare(const Tensor& out, const Tensor* mean, const Tensor* rstd, const Tensor& in, const Tensor* weight,
             const Tensor* bias, double eps, double limit, bool centered = true) {
  const int64_t m = in.sizes[0], n = in.sizes[1];
  int wrong = 0;
  for (int64_t r = 0; r < m; ++r) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) sum += in.get({r, i});
    const double mu = centered ? sum / static_cast<double>(n) : 0;
    for (int64_t i = 0; i < n; ++i) squares += (in.get({r, i}) - mu) * (in.get({r, i}) - mu);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
    if (mean && !near(mean->get({r}), mu, limit)) ++wrong;
    if (rstd && !near(rstd->get({r}), scale, limit)) ++wrong;
    for (int64_t i = 0; i < n; ++i) {
      double y = (in.get({r, i}) - mu) * scale;
      if (weight) y *= weight->get({i});
      if (bias) y += bias->get({i});
      if (!near(out.get({r, i}), y, limit) && wrong++ == 0) {
        std::fprintf(stderr, "[%d, %d]: %.9g, expected %.9g\n", int(r), int(i), out.get({r, i}), y);
      }
    }
  }
  CHECK_EQ(wrong, 0);
}

void values() {
  Random random;
  const Index shapes[] = {{1, 1},    {3, 1},    {1, 7},    {5, 16}, {4, 63},  {3, 768},
                          {2, 4096}, {2, 4097}, {2, 9001}, {0, 5},  {70, 300}};
  for (const atalla_dtype dtype : {ATALLA_F16, ATALLA_BF16, ATALLA_F32, ATALLA_F64}) {
    const atalla_dtype statistics = dtype == ATALLA_F64 ? ATALLA_F64 : ATALLA_F32;
    for (const Index& shape : shapes) {
      for (int form = 0; form < 16; ++form) {  // weight, bias, mean and rstd, strided
        const bool strided = (form & 8) != 0;
        Tensor in(dtype, shape, strided ? std::vector<int>{1, 0} : std::vector<int>{}, strided ? 2 : 1);
        Tensor out(dtype, shape, {}, strided ? 3 : 1);
        Tensor weight(dtype, {shape[1]}, {}, strided ? 2 : 1), bias = weight;
        Tensor mean(statistics, {shape[0]}), rstd = mean;
        in.each([&](const Index& i) { in.set(i, random.uniform(-2, 4)); });
        random.fill(weight);
        random.fill(bias);
        const bool w = form & 1, b = form & 2, s = form & 4;
        CHECK_EQ(
            launch({&out, s ? &mean : nullptr, s ? &rstd : nullptr, &in, w ? &weight : nullptr, b ? &bias : nullptr},
                   1e-5, dtype),
            ATALLA_OK);
        compare(out, s ? &mean : nullptr, s ? &rstd : nullptr, in, w ? &weight : nullptr, b ? &bias : nullptr, 1e-5,
                shape[1] == 1 ? 1e-2 : 3 * tolerance(dtype));
        CHECK_EQ(launch({&out, nullptr, s ? &rstd : nullptr, &in, w ? &weight : nullptr, b ? &bias : nullptr}, 1e-5,
                        dtype, -1, "rms_norm"),
                 ATALLA_OK);
        compare(out, nullptr, s ? &rstd : nullptr, in, w ? &weight : nullptr, b ? &bias : nullptr, 1e-5,
                3 * tolerance(dtype), false);
      }
    }
  }
}

// A large mean: a one-pass variance would lose every digit.
void cancellation() {
  Random random;
  Tensor in(ATALLA_F32, {8, 1000}), out = in, mean(ATALLA_F32, {8}), rstd = mean;
  in.each([&](const Index& i) { in.set(i, 10000 + static_cast<double>(random.below(3))); });
  CHECK_EQ(launch({&out, &mean, &rstd, &in}, 1e-5, ATALLA_F32), ATALLA_OK);
  compare(out, nullptr, &rstd, in, nullptr, nullptr, 1e-5, 2e-3);
}

void mixed_and_in_place() {
  Random random;
  Tensor in(ATALLA_BF16, {6, 100}), out(ATALLA_BF16, {6, 100}), weight(ATALLA_F32, {100}), bias = weight;
  Tensor mean(ATALLA_F32, {6}), rstd = mean;
  random.fill(in);
  random.fill(weight);
  random.fill(bias);
  CHECK_EQ(launch({&out, &mean, &rstd, &in, &weight, &bias}, 1e-5, ATALLA_F32), ATALLA_OK);
  compare(out, &mean, &rstd, in, &weight, &bias, 1e-5, 1e-2);

  Tensor x(ATALLA_F32, {6, 100}), y = x, z;
  random.fill(x);
  z = x;
  CHECK_EQ(launch({&y, &mean, &rstd, &x}, 1e-5, ATALLA_F32), ATALLA_OK);
  CHECK_EQ(launch({&z, &mean, &rstd, &x}, 1e-5, ATALLA_F32, 3), ATALLA_OK);
  CHECK(y.bytes == z.bytes);
}

void threads() {
  Random random;
  Tensor in(ATALLA_F32, {300, 383}), one = in, two = in, mean(ATALLA_F32, {300}), rstd = mean;
  random.fill(in);
  set_threads(1);
  CHECK_EQ(launch({&one, &mean, &rstd, &in}, 1e-5, ATALLA_F32), ATALLA_OK);
  set_threads(2);
  CHECK_EQ(launch({&two, &mean, &rstd, &in}, 1e-5, ATALLA_F32), ATALLA_OK);
  CHECK(one.bytes == two.bytes);
}

void errors() {
  Tensor in(ATALLA_F32, {3, 4}), out = in, weight(ATALLA_F32, {5}), flat(ATALLA_F32, {12}), integers(ATALLA_I32, {4});
  CHECK_EQ(launch({&out, nullptr, nullptr, &in, &weight}, 1e-5, ATALLA_F32), ATALLA_ERR_ARGUMENT);
  CHECK(last_error().find("weight") != std::string::npos);
  CHECK_EQ(launch({&out, nullptr, nullptr, &flat}, 1e-5, ATALLA_F32), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch({&out, nullptr, nullptr, &in, &integers}, 1e-5, ATALLA_F32), ATALLA_ERR_UNSUPPORTED);
  CHECK_EQ(launch({&out, nullptr, nullptr, nullptr}, 1e-5, ATALLA_F32), ATALLA_ERR_ARGUMENT);
  Tensor mean(ATALLA_F32, {3});
  CHECK_EQ(launch({&out, &mean, nullptr, &in}, 1e-5, ATALLA_F32, -1, "rms_norm"), ATALLA_ERR_ARGUMENT);
  CHECK(last_error().find("rms_norm: mean") != std::string::npos);
}

}  // namespace

int main() {
  values();
  cancellation();
  mixed_and_in_place();
  threads();
  errors();
  return check_report();
}
