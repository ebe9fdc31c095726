// SPDX-License-Identifier: BSD-3-Clause
//
// cumsum, cumprod and logcumsumexp against a plain reference.
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

atalla_status launch(Tensor& out, Tensor& in, int64_t dim, atalla_dtype compute, int alias = -1) {
  atalla_launch_desc d{};
  d.n_outputs = 1;
  d.compute_dtype = compute;
  d.iparams[0] = dim;
  return run_kernel("cumsum", d, {&out, &in}, alias);
}

double expected_at(const Tensor& in, Index i, int dim) {
  if (in.sizes.empty()) return in.get(i);
  const int64_t last = i[dim];
  double sum = 0;
  for (i[dim] = 0; i[dim] <= last; ++i[dim]) sum += in.get(i);
  return sum;
}

double tolerance(atalla_dtype d) {
  return d == ATALLA_F64 ? 1e-13 : d == ATALLA_F32 ? 1e-6 : d == ATALLA_F16 ? 1e-3 : d == ATALLA_BF16 ? 8e-3 : 0;
}

void values() {
  Random random;
  const Index shapes[] = {{}, {1}, {9}, {3, 5}, {0, 3}, {3, 0}, {4, 150}, {150, 140}, {2, 7, 3}, {3, 1100}};
  const atalla_dtype dtypes[] = {ATALLA_U8,   ATALLA_I8,  ATALLA_I16,  ATALLA_I32, ATALLA_I64,
                                 ATALLA_BOOL, ATALLA_F16, ATALLA_BF16, ATALLA_F32, ATALLA_F64};
  for (const atalla_dtype dtype : dtypes) {
    const bool integral = tolerance(dtype) == 0;
    const atalla_dtype result = integral ? atalla_dtype{ATALLA_I64} : dtype;
    for (const Index& shape : shapes) {
      for (int dim = 0; dim < static_cast<int>(shape.empty() ? 1 : shape.size()); ++dim) {
        for (const int64_t gap : {1, 2}) {
          Tensor in(dtype, shape, {}, gap), out(result, shape);
          random.fill(in);
          CHECK_EQ(launch(out, in, dim, result), ATALLA_OK);
          int wrong = 0;
          out.each([&](const Index& i) {
            const double e = expected_at(in, i, dim);
            wrong += !(std::fabs(out.get(i) - e) <= tolerance(dtype) * (1 + std::fabs(e)));
          });
          CHECK_EQ(wrong, 0);
        }
      }
    }
  }
}

void wrapping_and_special() {
  Tensor in(ATALLA_I8, {4}), out(ATALLA_I8, {4});
  for (int64_t i = 0; i < 4; ++i) in.set({i}, 100);
  CHECK_EQ(launch(out, in, 0, ATALLA_I8), ATALLA_OK);
  CHECK_EQ(out.get({1}), -56);  // 200 - 256
  CHECK_EQ(out.get({3}), -112);

  Tensor flags(ATALLA_BOOL, {3}), any(ATALLA_BOOL, {3});
  for (int64_t i = 0; i < 3; ++i) flags.set({i}, i == 1);
  CHECK_EQ(launch(any, flags, 0, ATALLA_BOOL), ATALLA_OK);
  CHECK(any.get({0}) == 0 && any.get({1}) == 1 && any.get({2}) == 1);

  Tensor x(ATALLA_F32, {4}), y = x;
  const double values[] = {1, INFINITY, -INFINITY, 2};
  for (int64_t i = 0; i < 4; ++i) x.set({i}, values[i]);
  CHECK_EQ(launch(y, x, 0, ATALLA_F32), ATALLA_OK);
  CHECK(y.get({0}) == 1 && y.get({1}) == INFINITY && std::isnan(y.get({2})) && std::isnan(y.get({3})));

  // I32 in, computed in F32: 2^24 + 1 is not an F32.
  Tensor big(ATALLA_I32, {1}), real(ATALLA_F32, {1});
  big.set({0}, 16777217);
  CHECK_EQ(launch(real, big, 0, ATALLA_F32), ATALLA_OK);
  CHECK_EQ(real.get({0}), 16777216);
}

void complex_numbers() {
  Tensor in(ATALLA_C64, {3}), out = in;
  const float values[] = {1, 2, 3, -4, 5, 6};
  std::memcpy(in.bytes.data(), values, sizeof values);
  CHECK_EQ(launch(out, in, 0, ATALLA_C64), ATALLA_OK);
  float got[6];
  std::memcpy(got, out.bytes.data(), sizeof got);
  CHECK(got[0] == 1 && got[1] == 2 && got[2] == 4 && got[3] == -2 && got[4] == 9 && got[5] == 4);
}

// cumprod and logcumsumexp.
void other_scans() {
  auto run = [](const char* kernel, Tensor& out, Tensor& in) {
    atalla_launch_desc d{};
    d.n_outputs = 1;
    d.compute_dtype = out.dtype;
    return run_kernel(kernel, d, {&out, &in});
  };
  Tensor x(ATALLA_F64, {200}), sum = x, product = x;
  for (int64_t i = 0; i < 200; ++i) x.set({i}, 0.9 + 0.001 * static_cast<double>(i));
  CHECK_EQ(run("logcumsumexp", sum, x), ATALLA_OK);
  CHECK_EQ(run("cumprod", product, x), ATALLA_OK);
  double total = 0, all = 1;
  int wrong = 0;
  for (int64_t i = 0; i < 200; ++i) {
    total += std::exp(x.get({i})), all *= x.get({i});
    wrong += std::fabs(sum.get({i}) - std::log(total)) > 1e-12 || std::fabs(product.get({i}) - all) > 1e-12;
  }
  CHECK_EQ(wrong, 0);
  const double values[] = {-INFINITY, 1, INFINITY, INFINITY, NAN};
  for (int64_t i = 0; i < 5; ++i) x.set({i}, values[i]);
  CHECK_EQ(run("logcumsumexp", sum, x), ATALLA_OK);
  CHECK(sum.get({0}) == -INFINITY && sum.get({1}) == 1 && sum.get({3}) == INFINITY && std::isnan(sum.get({5})));
  Tensor bytes(ATALLA_I8, {3}), wrapped(ATALLA_I64, {3});
  for (int64_t i = 0; i < 3; ++i) bytes.set({i}, -100);
  CHECK_EQ(run("cumprod", wrapped, bytes), ATALLA_OK);
  CHECK_EQ(wrapped.get({2}), -1000000);
}

void in_place_threads_errors() {
  Random random;
  for (const int64_t dim : {0, 1}) {
    Tensor in(ATALLA_F32, {300, 400}), one = in, two = in, same = in;
    random.fill(in);
    set_threads(1);
    CHECK_EQ(launch(one, in, dim, ATALLA_F32), ATALLA_OK);
    set_threads(2);
    CHECK_EQ(launch(two, in, dim, ATALLA_F32), ATALLA_OK);
    CHECK(one.bytes == two.bytes);
    same = in;
    CHECK_EQ(launch(same, in, dim, ATALLA_F32, 1), ATALLA_OK);
    CHECK(one.bytes == same.bytes);
  }
  Tensor a(ATALLA_F32, {2}), b(ATALLA_F32, {3});
  CHECK_EQ(launch(b, a, 0, ATALLA_F32), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch(a, a, 1, ATALLA_F32), ATALLA_ERR_ARGUMENT);
}

}  // namespace

int main() {
  values();
  wrapping_and_special();
  complex_numbers();
  other_scans();
  in_place_threads_errors();
  return check_report();
}
