// SPDX-License-Identifier: BSD-3-Clause
//
// Special functions against tables in 50 digits, kernels with two results, and functions of a number's bits.
#include <algorithm>
#include <limits>

#include "check.h"
#include "kernels/harness.h"
#include "kernels/special_table.h"

namespace {

using namespace kernel_test;

// The distance in units of the last place of `expected`, in the precision of dtype d.
double ulps(double got, double expected, atalla_dtype d) {
  if (got == expected) return 0;
  if (!std::isfinite(got) || !std::isfinite(expected)) return INFINITY;
  int exponent;
  std::frexp(expected, &exponent);
  const int lowest = d == ATALLA_F64 ? -1074 : -149;
  return std::fabs(got - expected) / std::ldexp(1.0, std::max(exponent - (d == ATALLA_F64 ? 53 : 24), lowest));
}

void check_row(const special_table::Row& row, atalla_dtype d, std::vector<double> arguments, int64_t order) {
  Tensor out(d, {3}), x(d, {3}), y(d, {3});
  for (int64_t i = 0; i < 3; ++i) {
    x.set({i}, arguments[0]);
    if (arguments.size() > 1) y.set({i}, arguments[1]);
  }
  // Arguments and results that float does not hold are left to double.
  if (d == ATALLA_F32) {
    if (x.get({0}) != row.x || (arguments.size() > 1 && y.get({0}) != row.y)) return;
    if (std::fabs(row.value) > std::numeric_limits<float>::max()) return;
  }
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = d;
  desc.fparams[0] = static_cast<double>(order);
  desc.iparams[0] = order;
  std::vector<Tensor*> operands = {&out, &x};
  if (arguments.size() > 1) operands.push_back(&y);
  const atalla_status status = run_kernel(row.kernel, desc, operands);
  if (!check::note(status == ATALLA_OK, __FILE__, __LINE__, std::string(row.kernel) + ": " + last_error())) return;
  // Float goes through double, and is rounded once; polynomials are computed in float.
  const double expected = d == ATALLA_F32 ? static_cast<float>(row.value) : row.value;
  const bool polynomial = row.ulps >= 256;
  const double allowed = d == ATALLA_F32 && !polynomial ? 1 : row.ulps;
  const double error = ulps(out.get({1}), expected, d);
  char text[200];
  std::snprintf(text, sizeof text, "%s(%.17g, %.17g) %s: %.17g, expected %.17g, %.1f ulp", row.kernel, row.x, row.y,
                dtype_name(d), out.get({1}), expected, error);
  check::note(error <= allowed, __FILE__, __LINE__, text);
}

void test_tables() {
  for (const atalla_dtype d : {ATALLA_F64, ATALLA_F32}) {
    for (const auto& row : special_table::kUnary) check_row(row, d, {row.x}, 0);
    for (const auto& row : special_table::kBinary) check_row(row, d, {row.x, row.y}, 0);
    for (const auto& row : special_table::kPolygamma) check_row(row, d, {row.x}, static_cast<int64_t>(row.y));
  }
}

// Two results of different dtypes, in every way in which the engine stores them.
void test_two_results() {
  const double values[] = {0, -0.0, 1, -3, 0.375, 1e30, -1e-30, 0x1p-149, 0x1p-1074, INFINITY, -INFINITY, NAN};
  for (const atalla_dtype d : {ATALLA_F32, ATALLA_F64, ATALLA_F16}) {
    for (const int64_t gap : {1, 3}) {
      for (const int64_t n : {1, 17, 40000}) {
        Tensor in(static_cast<atalla_dtype>(d), {n}), mantissa(static_cast<atalla_dtype>(d), {n}, {}, gap);
        Tensor exponent(ATALLA_I32, {n}, {}, gap == 1 ? 1 : 2);
        for (int64_t i = 0; i < n; ++i) in.set({i}, values[i % static_cast<int64_t>(std::size(values))]);
        atalla_launch_desc desc{};
        desc.n_outputs = 2;
        desc.compute_dtype = d;
        if (!CHECK_EQ(run_kernel("pointwise.frexp", desc, {&mantissa, &exponent, &in}), ATALLA_OK)) continue;
        int wrong = 0;
        for (int64_t i = 0; i < n; ++i) {
          int expected = 0;
          const double x = in.get({i});
          const double m = std::frexp(x, &expected);
          if (!std::isfinite(x)) expected = 0;
          const double got = mantissa.get({i});
          const bool same = std::isnan(m) ? std::isnan(got) : got == m && std::signbit(got) == std::signbit(m);
          if (!same || exponent.get({i}) != expected) ++wrong;
        }
        CHECK_EQ(wrong, 0);
      }
    }
  }
  Tensor in(ATALLA_F32, {3}), out(ATALLA_F32, {3});
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = ATALLA_F32;
  CHECK_EQ(run_kernel("pointwise.frexp", desc, {&out, &in}), ATALLA_ERR_ARGUMENT);
  CHECK(last_error().find("2 outputs") != std::string::npos);
}

void test_nextafter() {
  struct Case {
    atalla_dtype dtype;
    double from, to, expected;
  };
  const Case cases[] = {
      {ATALLA_F16, 1, 2, 1 + 0x1p-10},
      {ATALLA_F16, 0, -1, -0x1p-24},
      {ATALLA_F16, 65504, INFINITY, INFINITY},
      {ATALLA_BF16, 1, 0, 1 - 0x1p-8},
      {ATALLA_F32, -1, 1, -1 + 0x1p-24},
      {ATALLA_F32, 0x1p-149, 0, 0},
      {ATALLA_F64, 1, 1, 1},
      {ATALLA_F64, INFINITY, 0, std::numeric_limits<double>::max()},
      {ATALLA_F64, NAN, 0, NAN},
  };
  for (const Case& c : cases) {
    Tensor from(c.dtype, {2}), to(c.dtype, {2}), out(c.dtype, {2});
    for (int64_t i = 0; i < 2; ++i) from.set({i}, c.from), to.set({i}, c.to);
    atalla_launch_desc desc{};
    desc.n_outputs = 1;
    desc.compute_dtype = c.dtype;
    CHECK_EQ(run_kernel("pointwise.nextafter", desc, {&out, &from, &to}), ATALLA_OK);
    if (std::isnan(c.expected)) CHECK(std::isnan(out.get({1})));
    else CHECK_EQ(out.get({1}), c.expected);
  }
}

void test_gcd() {
  const double cases[][4] = {{12, 18, 6, 36}, {-12, 18, 6, 36}, {0, -5, 5, 0}, {0, 0, 0, 0}, {7, 1, 1, 7}};
  for (const atalla_dtype d : {ATALLA_I8, ATALLA_I16, ATALLA_I32, ATALLA_I64}) {
    for (const auto& c : cases) {
      Tensor a(static_cast<atalla_dtype>(d), {1}), b(static_cast<atalla_dtype>(d), {1}),
          out(static_cast<atalla_dtype>(d), {1});
      a.set({0}, c[0]);
      b.set({0}, c[1]);
      atalla_launch_desc desc{};
      desc.n_outputs = 1;
      desc.compute_dtype = d;
      CHECK_EQ(run_kernel("pointwise.gcd", desc, {&out, &a, &b}), ATALLA_OK);
      CHECK_EQ(out.get({0}), c[2]);
      CHECK_EQ(run_kernel("pointwise.lcm", desc, {&out, &a, &b}), ATALLA_OK);
      CHECK_EQ(out.get({0}), c[3]);
    }
  }
  // The most negative number has no magnitude of its own type; nothing traps.
  Tensor a(ATALLA_I32, {1}), b(ATALLA_I32, {1}), out(ATALLA_I32, {1});
  a.set({0}, -2147483648.0);
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = ATALLA_I32;
  for (const double other : {0.0, -1.0, 5.0, 6.0, -2147483648.0}) {
    b.set({0}, other);
    CHECK_EQ(run_kernel("pointwise.gcd", desc, {&out, &a, &b}), ATALLA_OK);
    CHECK_EQ(run_kernel("pointwise.lcm", desc, {&out, &a, &b}), ATALLA_OK);
  }
}

}  // namespace

int main() {
  test_tables();
  test_two_results();
  test_nextafter();
  test_gcd();
  return check_report();
}
