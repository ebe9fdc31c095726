// SPDX-License-Identifier: BSD-3-Clause
//
// softmax and log_softmax against a plain reference in double.
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

double tolerance(atalla_dtype d) {
  switch (d) {
    case ATALLA_F64:
      return 1e-14;
    case ATALLA_F32:
      return 1e-6;
    case ATALLA_F16:
      return 6e-4;
    default:
      return 5e-3;
  }
}

bool near(double a, double b, double eps) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= eps * (1 + std::fabs(b));
}

// The maximum and the sum of a row, kept for its other elements.
struct Reference {
  const Tensor& in;
  int dim;
  bool log;
  Index row;
  double max = 0, sum = 0;
  bool nan = false;

  double at(Index i) {
    if (in.sizes.empty()) return log ? 0 : 1;
    const double x = in.get(i);
    i[dim] = 0;
    if (i != row) {
      row = i;
      max = -INFINITY, sum = 0, nan = false;
      for (; i[dim] < in.sizes[dim]; ++i[dim]) {
        nan = nan || std::isnan(in.get(i));
        max = std::fmax(max, in.get(i));
      }
      for (i[dim] = 0; i[dim] < in.sizes[dim]; ++i[dim]) sum += std::exp(in.get(i) - max);
    }
    if (nan || std::isinf(max)) return NAN;
    return log ? x - max - std::log(sum) : std::exp(x - max) / sum;
  }
};

atalla_status launch(Tensor& out, Tensor& in, int64_t dim, bool log, atalla_dtype compute, int alias = -1) {
  atalla_launch_desc d{};
  d.n_outputs = 1;
  d.compute_dtype = compute;
  d.iparams[0] = dim;
  return run_kernel(log ? "log_softmax" : "softmax", d, {&out, &in}, alias);
}

void compare(const Tensor& out, const Tensor& in, int dim, bool log, double eps, const char* what) {
  int wrong = 0;
  Reference reference{in, dim, log, {}};
  out.each([&](const Index& i) {
    const double exact = reference.at(i), got = out.get(i);
    const double expected = out.dtype == ATALLA_F32 ? static_cast<float>(exact) : exact;  // it may overflow
    if (!near(got, expected, eps) && wrong++ == 0)
      std::fprintf(stderr, "%s: %.9g, expected %.9g\n", what, got, expected);
  });
  CHECK_EQ(wrong, 0);
}

void shapes_and_strides() {
  Random random;
  const atalla_dtype dtypes[] = {ATALLA_F16, ATALLA_BF16, ATALLA_F32, ATALLA_F64};
  const std::vector<Index> shapes = {{},          {1},         {7},      {64},      {3, 1},
                                     {5, 17},     {2, 130},    {0, 4},   {4, 0},    {3, 5, 7},
                                     {2, 33, 65}, {2, 3, 300}, {9, 200}, {1, 9000}, {2, 3, 4, 5}};
  for (const atalla_dtype dtype : dtypes) {
    for (const Index& shape : shapes) {
      const int rank = static_cast<int>(shape.size());
      std::vector<int> reversed;
      for (int d = rank - 1; d >= 0; --d) reversed.push_back(d);
      for (int dim = 0; dim < (rank > 0 ? rank : 1); ++dim) {
        for (int form = 0; form < 4; ++form) {  // both contiguous, input transposed, both transposed, gaps
          Tensor in(dtype, shape, form == 1 || form == 2 ? reversed : std::vector<int>{}, form == 3 ? 3 : 1);
          Tensor out(dtype, shape, form == 2 ? reversed : std::vector<int>{}, form == 3 ? 2 : 1);
          in.each([&](const Index& i) { in.set(i, random.uniform(-9, 9)); });
          for (const bool log : {false, true}) {
            CHECK_EQ(launch(out, in, dim, log, dtype), ATALLA_OK);
            compare(out, in, dim, log, tolerance(dtype), "softmax");
          }
        }
      }
    }
  }
}

void special_values() {
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
        CHECK_EQ(launch(out, in, 1, log, dtype), ATALLA_OK);
        compare(out, in, 1, log, tolerance(dtype), "special");
      }
    }
  }
}

// Subnormal probabilities are kept, and rounded once.
void gradual_underflow() {
  Tensor in(ATALLA_F32, {40}), out(ATALLA_F32, {40});
  in.each([&](const Index& i) { in.set(i, i[0] == 0 ? 0 : -85 - 0.5 * static_cast<double>(i[0])); });
  CHECK_EQ(launch(out, in, 0, false, ATALLA_F32), ATALLA_OK);
  Reference reference{in, 0, false, {}};
  out.each([&](const Index& i) {
    const double expected = reference.at(i);
    CHECK(std::fabs(out.get(i) - expected) <= 3e-7 * expected + 0x1p-149);
  });
}

void in_place_and_types() {
  Random random;
  Tensor in(ATALLA_F32, {4, 70}), out = in;
  random.fill(in);
  CHECK_EQ(launch(out, in, 1, false, ATALLA_F32), ATALLA_OK);
  Tensor both = in;
  CHECK_EQ(launch(both, in, 1, false, ATALLA_F32), ATALLA_OK);
  Tensor result = in;  // operand 1 is the memory of operand 0
  CHECK_EQ(launch(result, in, 1, false, ATALLA_F32, 1), ATALLA_OK);
  CHECK(result.bytes == out.bytes);

  Tensor half(ATALLA_F16, {4, 70}), wide(ATALLA_F32, {4, 70});
  random.fill(half);
  CHECK_EQ(launch(wide, half, 1, false, ATALLA_F32), ATALLA_OK);
  compare(wide, half, 1, false, 1e-6, "half to float");
}

// The same row gives the same bits wherever it stands, and with any number of threads.
void determinism() {
  Random random;
  for (const Index& shape : {Index{200, 333}, Index{333, 200}}) {
    const int dim = shape[0] == 200 ? 1 : 0;
    Tensor in(ATALLA_F32, shape), one(ATALLA_F32, shape), two = one;
    for (int64_t k = 0; k < 333; ++k) {
      const double x = random.uniform(-20, 20);
      for (int64_t r = 0; r < 200; ++r) in.set(dim ? Index{r, k} : Index{k, r}, x);
    }
    set_threads(1);
    CHECK_EQ(launch(one, in, dim, false, ATALLA_F32), ATALLA_OK);
    set_threads(2);
    CHECK_EQ(launch(two, in, dim, false, ATALLA_F32), ATALLA_OK);
    CHECK(one.bytes == two.bytes);
    bool same = true;
    one.each([&](const Index& i) { same = same && one.get(i) == one.get(dim ? Index{0, i[1]} : Index{i[0], 0}); });
    CHECK(same);
  }
}

void errors() {
  Tensor in(ATALLA_F32, {3, 4}), out(ATALLA_F32, {3, 5}), good(ATALLA_F32, {3, 4}), integers(ATALLA_I32, {3, 4});
  CHECK_EQ(launch(out, in, 1, false, ATALLA_F32), ATALLA_ERR_ARGUMENT);
  CHECK(last_error().find("(input) is [3, 4], expected size 5 in dimension 1") != std::string::npos);
  CHECK_EQ(launch(good, in, 2, false, ATALLA_F32), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch(good, in, -1, false, ATALLA_F32), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch(integers, in, 1, false, ATALLA_F32), ATALLA_ERR_UNSUPPORTED);
  CHECK_EQ(launch(good, in, 1, false, ATALLA_I32), ATALLA_ERR_UNSUPPORTED);
}

}  // namespace

int main() {
  shapes_and_strides();
  special_values();
  gradual_underflow();
  in_place_and_types();
  determinism();
  errors();
  return check_report();
}
