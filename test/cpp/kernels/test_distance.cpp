// SPDX-License-Identifier: BSD-3-Clause
//
// cdist, pdist, cross, segment_reduce and the counting reductions against plain references.
#include <cmath>
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

atalla_status launch(const char* kernel, const std::vector<Tensor*>& operands, const Index& iparams, double p = 0) {
  atalla_launch_desc d{};
  d.n_outputs = 1;
  d.compute_dtype = operands[1]->dtype;
  d.fparams[0] = p;
  for (size_t i = 0; i < iparams.size(); ++i) d.iparams[i] = iparams[i];
  return run_kernel(kernel, d, operands);
}

double norm(const std::vector<double>& x, double p) {
  double sum = 0;
  for (const double v : x) {
    const double a = std::fabs(v);
    sum = std::isinf(p) ? std::fmax(sum, a) : sum + (p == 0 ? a != 0 : std::pow(a, p));
  }
  return std::isinf(p) || p == 0 ? sum : std::pow(sum, 1 / p);
}

bool close(double a, double b, double tolerance) { return std::fabs(a - b) <= tolerance * (1 + std::fabs(b)); }

void distances() {
  Random random;
  for (const atalla_dtype dtype : {ATALLA_F32, ATALLA_F64}) {
    const double tolerance = dtype == ATALLA_F32 ? 2e-5 : 1e-12;
    for (const double p : {0.0, 0.5, 1.0, 2.0, 3.0, static_cast<double>(INFINITY)}) {
      Tensor x(dtype, {2, 5, 37}), y(dtype, {2, 4, 37}), out(dtype, {2, 5, 4}), rows(dtype, {6, 9}), pairs(dtype, {15});
      random.fill(x), random.fill(y), random.fill(rows);
      CHECK_EQ(launch("cdist", {&out, &x, &y}, {}, p), ATALLA_OK);
      int wrong = 0;
      out.each([&](const Index& i) {
        std::vector<double> difference;
        for (int64_t k = 0; k < 37; ++k) difference.push_back(x.get({i[0], i[1], k}) - y.get({i[0], i[2], k}));
        wrong += !close(out.get(i), norm(difference, p), tolerance);
      });
      CHECK_EQ(launch("pdist", {&pairs, &rows}, {}, p), ATALLA_OK);
      int64_t pair = 0;
      for (int64_t i = 0; i < 6; ++i) {
        for (int64_t j = i + 1; j < 6; ++j) {
          std::vector<double> difference;
          for (int64_t k = 0; k < 9; ++k) difference.push_back(rows.get({i, k}) - rows.get({j, k}));
          wrong += !close(pairs.get({pair++}), norm(difference, p), tolerance);
        }
      }
      CHECK_EQ(wrong, 0);
    }
  }
  Tensor x(ATALLA_F32, {1, 2, 3}), y(ATALLA_F32, {1, 2, 4}), out(ATALLA_F32, {1, 2, 2});
  CHECK_EQ(launch("cdist", {&out, &x, &y}, {}, 2), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("cdist", {&out, &x, &x}, {}, -1), ATALLA_ERR_ARGUMENT);
}

void vector_products() {
  Random random;
  for (const atalla_dtype dtype : {ATALLA_I8, ATALLA_I64, ATALLA_BF16, ATALLA_F64}) {
    for (const int dim : {0, 1}) {
      const Index shape = dim ? Index{20, 3} : Index{3, 20};
      Tensor a(dtype, shape), b(dtype, shape, {1, 0}), out(dtype, shape);
      random.fill(a), random.fill(b);
      CHECK_EQ(launch("cross", {&out, &a, &b}, {dim}), ATALLA_OK);
      int wrong = 0;
      out.each([&](const Index& i) {
        auto at = [&](const Tensor& t, int64_t step) {
          Index j = i;
          j[static_cast<size_t>(dim)] = (j[static_cast<size_t>(dim)] + step) % 3;
          return t.get(j);
        };
        double expected = at(a, 1) * at(b, 2) - at(a, 2) * at(b, 1);
        if (dtype == ATALLA_I8) expected = static_cast<int8_t>(static_cast<int64_t>(expected));
        wrong += !close(out.get(i), expected, dtype == ATALLA_BF16 ? 1e-2 : 1e-12);
      });
      CHECK_EQ(wrong, 0);
    }
  }
}

void segments() {
  Tensor data(ATALLA_F32, {2, 4, 3}), lengths(ATALLA_I64, {2, 3}), offsets(ATALLA_I32, {2, 4}),
      out(ATALLA_F32, {2, 3, 3});
  data.each([&](const Index& i) { data.set(i, static_cast<double>(i[1] + 1 + 10 * i[0])); });
  const int64_t ends[2][4] = {{0, 1, 1, 4}, {0, 2, 3, 4}};
  for (int64_t o = 0; o < 2; ++o) {
    for (int64_t s = 0; s < 4; ++s) offsets.set({o, s}, static_cast<double>(ends[o][s]));
    for (int64_t s = 0; s < 3; ++s) lengths.set({o, s}, static_cast<double>(ends[o][s + 1] - ends[o][s]));
  }
  for (const int64_t by_offsets : {0, 1}) {
    Tensor& numbers = by_offsets ? offsets : lengths;
    CHECK_EQ(launch("segment_reduce", {&out, &data, &numbers}, {0, by_offsets, 0}), ATALLA_OK);
    CHECK(out.get({0, 2, 1}) == 9 && out.get({0, 1, 0}) == 0 && out.get({1, 0, 2}) == 23);
    CHECK_EQ(launch("segment_reduce", {&out, &data, &numbers}, {1, by_offsets, 0}), ATALLA_OK);
    CHECK(out.get({0, 2, 1}) == 3 && std::isnan(out.get({0, 1, 0})));
    CHECK_EQ(launch("segment_reduce", {&out, &data, &numbers}, {2, by_offsets, 1}, 3.5), ATALLA_OK);
    CHECK(out.get({0, 2, 1}) == 4 && out.get({0, 0, 1}) == 3.5);
    CHECK_EQ(launch("segment_reduce", {&out, &data, &numbers}, {4, by_offsets, 0}), ATALLA_OK);
    CHECK(out.get({0, 2, 1}) == 24 && out.get({0, 1, 0}) == 1);
  }
  Tensor grad(ATALLA_F32, {2, 3, 3}), gradient(ATALLA_F32, {2, 4, 3});
  grad.each([&](const Index& i) { grad.set(i, 6); });
  CHECK_EQ(launch("segment_reduce_backward", {&gradient, &grad, &out, &data, &lengths}, {1, 0, 0}), ATALLA_OK);
  CHECK(gradient.get({0, 0, 0}) == 6 && gradient.get({0, 3, 0}) == 2);
  lengths.set({1, 2}, 5);
  CHECK_EQ(launch("segment_reduce", {&out, &data, &lengths}, {0, 0, 0}), ATALLA_ERR_FAULT_INDEX);
}

void counts() {
  Tensor x(ATALLA_F32, {2, 1000}), sum(ATALLA_F32, {2, 1}), count(ATALLA_I64, {2, 1}), bits(ATALLA_I64, {2, 1});
  sum.strides[1] = count.strides[1] = bits.strides[1] = 0;
  x.each([&](const Index& i) { x.set(i, i[1] % 3 == 0 ? NAN : static_cast<double>(i[1] % 3 - 1)); });
  CHECK_EQ(launch("reduce.nansum", {&sum, &x}, {2}), ATALLA_OK);
  CHECK_EQ(sum.get({1, 0}), 333);
  CHECK_EQ(launch("reduce.count_nonzero", {&count, &x}, {2}), ATALLA_OK);
  CHECK_EQ(count.get({0, 0}), 334 + 333);
  Tensor y(ATALLA_I32, {2, 3});
  y.each([&](const Index& i) { y.set(i, i[1] == 0 ? 12 : i[1] == 1 ? 10 : -1); });
  CHECK_EQ(launch("reduce.xor", {&bits, &y}, {2}), ATALLA_OK);
  CHECK_EQ(bits.get({0, 0}), ~(12 ^ 10));
}

}  // namespace

int main() {
  distances();
  vector_products();
  segments();
  counts();
  return check_report();
}
