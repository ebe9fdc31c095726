// SPDX-License-Identifier: BSD-3-Clause
//
// The order of NaN and of equal elements in sort and selections; searches, unique and histogram against plain
// references.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

constexpr atalla_dtype kDtypes[] = {ATALLA_U8,   ATALLA_I8,  ATALLA_I16,  ATALLA_I32, ATALLA_I64,
                                    ATALLA_BOOL, ATALLA_F16, ATALLA_BF16, ATALLA_F32, ATALLA_F64};

bool is_float(atalla_dtype d) { return d == ATALLA_F16 || d == ATALLA_BF16 || d == ATALLA_F32 || d == ATALLA_F64; }

// NaN last, as the kernels order.
bool less(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

atalla_status launch(const char* kernel, const std::vector<Tensor*>& operands, int outputs, const Index& iparams,
                     int alias = -1) {
  atalla_launch_desc d{};
  d.n_outputs = static_cast<uint8_t>(outputs);
  d.compute_dtype = operands[static_cast<size_t>(outputs)]->dtype;
  for (size_t i = 0; i < iparams.size(); ++i) d.iparams[i] = iparams[i];
  return run_kernel(kernel, d, operands, alias);
}

// Many equal values, and for floats NaN, infinities and both zeros.
void fill(Tensor& t, Random& random) {
  t.each([&](const Index& i) {
    const int64_t x = random.below(40);
    const bool special = is_float(t.dtype) && x >= 35;
    const double specials[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0};
    const bool is_unsigned = t.dtype == ATALLA_U8 || t.dtype == ATALLA_BOOL;
    t.set(i, special ? specials[x - 35] : static_cast<double>(is_unsigned ? x : x - 20));
  });
}

std::vector<double> column(const Tensor& t, int64_t row, int dim) {
  std::vector<double> x;
  for (int64_t i = 0; i < t.sizes[static_cast<size_t>(dim)]; ++i)
    x.push_back(t.get(dim ? Index{row, i} : Index{i, row}));
  return x;
}

std::vector<int64_t> stable_order(const std::vector<double>& x, bool descending) {
  std::vector<int64_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return descending ? less(x[b], x[a]) : less(x[a], x[b]); });
  return order;
}

void sorting() {
  Random random;
  for (const atalla_dtype dtype : kDtypes) {
    for (const int64_t length : {30, 700}) {
      for (const int dim : {0, 1}) {
        for (const bool descending : {false, true}) {
          const Index shape = dim ? Index{3, length} : Index{length, 3};
          Tensor in(dtype, shape), values(dtype, shape), indices(ATALLA_I64, shape);
          fill(in, random);
          CHECK_EQ(launch("sort", {&values, &indices, &in}, 2, {dim, descending}), ATALLA_OK);
          int wrong = 0;
          for (int64_t r = 0; r < 3; ++r) {
            const auto x = column(in, r, dim);
            const auto order = stable_order(x, descending);
            const auto got = column(indices, r, dim), sorted = column(values, r, dim);
            for (size_t i = 0; i < x.size(); ++i) {
              wrong += got[i] != static_cast<double>(order[i]);
              wrong += !(sorted[i] == x[order[i]] || std::isnan(x[order[i]]));
            }
          }
          CHECK_EQ(wrong, 0);
        }
      }
    }
  }
}

// Which of several equal elements is taken is the standard library's choice.
void selects_as_partial_sort() {
  Random random;
  using Pair = std::pair<double, int64_t>;
  for (const atalla_dtype dtype : kDtypes) {
    for (const int64_t length : {64, 127, 145, 700}) {
      for (const int64_t k : {int64_t{1}, int64_t{2}, length / 64}) {
        for (const int variant : {0, 1, 2, 3}) {
          const bool largest = variant & 1;
          const int dim = variant / 2;
          if (k * 64 > length) continue;
          const Index shape = dim ? Index{70, length} : Index{length, 70}, small = dim ? Index{70, k} : Index{k, 70};
          Tensor in(dtype, shape), top(dtype, small), places(ATALLA_I64, small);
          fill(in, random);
          CHECK_EQ(launch("topk", {&top, &places, &in}, 2, {dim, k, largest, 1}), ATALLA_OK);
          int wrong = 0;
          for (int64_t r = 0; r < 70; ++r) {
            std::vector<Pair> x;
            for (const double v : column(in, r, dim)) x.emplace_back(v, static_cast<int64_t>(x.size()));
            std::partial_sort(x.begin(), x.begin() + k, x.end(), [&](const Pair& a, const Pair& b) {
              return largest ? less(b.first, a.first) : less(a.first, b.first);
            });
            const auto values = column(top, r, dim), indices = column(places, r, dim);
            for (size_t i = 0; i < values.size(); ++i) {
              wrong += indices[i] != static_cast<double>(x[i].second);
              wrong += !(values[i] == x[i].first || (std::isnan(values[i]) && std::isnan(x[i].first)));
            }
          }
          CHECK_EQ(wrong, 0);
        }
      }
    }
  }
}

void selections() {
  Tensor x(ATALLA_F32, {5}), value(ATALLA_F32, {1}), index(ATALLA_I64, {1});
  const double values[] = {3, NAN, 1, 3, 2};
  for (int64_t i = 0; i < 5; ++i) x.set({i}, values[i]);
  CHECK_EQ(launch("median", {&value, &index, &x}, 2, {0, 0}), ATALLA_OK);
  CHECK(std::isnan(value.get({0})) && index.get({0}) == 1);
  CHECK_EQ(launch("median", {&value, &index, &x}, 2, {0, 1}), ATALLA_OK);
  CHECK(value.get({0}) == 2 && index.get({0}) == 4);
  CHECK_EQ(launch("mode", {&value, &index, &x}, 2, {0}), ATALLA_OK);
  CHECK_EQ(value.get({0}), 3);
  Tensor running(ATALLA_F32, {5}), places(ATALLA_I64, {5});
  CHECK_EQ(launch("cummax", {&running, &places, &x}, 2, {0}), ATALLA_OK);
  CHECK(running.get({0}) == 3 && std::isnan(running.get({4})) && places.get({4}) == 1);
  CHECK_EQ(launch("kthvalue", {&value, &index, &x}, 2, {0, 5}), ATALLA_OK);
  CHECK(std::isnan(value.get({0})) && index.get({0}) == 1);
}

void searches() {
  Random random;
  Tensor rows(ATALLA_I32, {2, 50}), values(ATALLA_I32, {2, 70}), out(ATALLA_I64, {2, 70}), order(ATALLA_I64, {2, 50});
  fill(values, random);
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t i = 0; i < 50; ++i)
      rows.set({r, i}, static_cast<double>(i / 2 - 12)), order.set({r, i}, static_cast<double>(i));
  }
  for (const bool right : {false, true}) {
    CHECK_EQ(launch("searchsorted", {&out, &rows, &values, &order}, 1, {right}), ATALLA_OK);
    int wrong = 0;
    out.each([&](const Index& i) {
      int64_t expected = 0;
      for (int64_t j = 0; j < 50; ++j) {
        const double b = rows.get({i[0], j}), v = values.get(i);
        expected += right ? b <= v : b < v;
      }
      wrong += out.get_integer(i) != expected;
    });
    CHECK_EQ(wrong, 0);
  }
  order.set({1, 3}, 50);
  CHECK_EQ(launch("searchsorted", {&out, &rows, &values, &order}, 1, {0}), ATALLA_ERR_FAULT_INDEX);
}

void distinct() {
  Random random;
  constexpr int64_t n = 40000;
  Tensor in(ATALLA_I16, {n}), order(ATALLA_I64, {n}), ranks(ATALLA_I64, {n}), total(ATALLA_I64, {1});
  fill(in, random);
  CHECK_EQ(launch("sort", {nullptr, &order, &in}, 2, {0, 0}), ATALLA_OK);
  CHECK_EQ(launch("unique.count", {&ranks, &total, &in, &order}, 2, {}), ATALLA_OK);
  CHECK_EQ(total.get({0}), 40);
  Tensor values(ATALLA_I16, {40}), inverse(ATALLA_I64, {n}), counts(ATALLA_I64, {40});
  CHECK_EQ(launch("unique.write", {&values, &inverse, &counts, &in, &ranks, &order}, 3, {}), ATALLA_OK);
  int64_t sum = 0;
  for (int64_t i = 0; i < 40; ++i)
    CHECK_EQ(values.get({i}), static_cast<double>(i - 20)), sum += counts.get_integer({i});
  CHECK_EQ(sum, n);
  int wrong = 0;
  for (int64_t i = 0; i < n; ++i) wrong += values.get({inverse.get_integer({i})}) != in.get({i});
  CHECK_EQ(wrong, 0);
  order.set({7}, static_cast<double>(n));
  CHECK_EQ(launch("unique.count", {&ranks, &total, &in, &order}, 2, {}), ATALLA_ERR_FAULT_INDEX);

  // Rows: 0 1, 0 0, 0 1 -> two distinct ones.
  Tensor rows(ATALLA_F32, {3, 2}), places(ATALLA_I64, {3}), r(ATALLA_I64, {3});
  const double x[] = {0, 1, -0.0, 0, 0, 1};
  for (int64_t i = 0; i < 6; ++i) rows.set({i / 2, i % 2}, x[i]);
  CHECK_EQ(launch("sort_rows", {&places, &rows}, 1, {}), ATALLA_OK);
  CHECK(places.get({0}) == 1 && places.get({1}) == 0 && places.get({2}) == 2);
  CHECK_EQ(launch("unique.count", {&r, &total, &rows, &places}, 2, {}), ATALLA_OK);
  CHECK_EQ(total.get({0}), 2);
}

void histograms() {
  Random random;
  Tensor points(ATALLA_F32, {100000, 1}), edges(ATALLA_F32, {5}), one(ATALLA_F32, {4}), none;
  points.each([&](const Index& i) { points.set(i, random.uniform(-1, 5)); });
  points.set({0, 0}, 4), points.set({1, 0}, NAN);
  for (int64_t i = 0; i < 5; ++i) edges.set({i}, static_cast<double>(i));
  for (const int64_t way : {0, 1, 2}) {
    CHECK_EQ(launch("histogram", {&one, &points, &none, &edges}, 1, {way}), ATALLA_OK);
    for (int64_t b = 0; b < 4; ++b) {
      int64_t expected = 0;
      for (int64_t i = 0; i < 100000; ++i) {
        const double x = points.get({i, 0});
        expected += x >= static_cast<double>(b) && (x < static_cast<double>(b + 1) || (b == 3 && x == 4));
      }
      CHECK_EQ(one.get({b}), static_cast<double>(expected));
    }
  }
}

}  // namespace

int main() {
  sorting();
  selections();
  selects_as_partial_sort();
  searches();
  distinct();
  histograms();
  return check_report();
}
