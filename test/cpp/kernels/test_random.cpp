// SPDX-License-Identifier: BSD-3-Clause
//
// The random kernels: known answers of Philox, ranges, moments, independence of splits, threads and layouts.
#define ATALLA_ISA test_isa
#include <cstdio>

#include "sim/kernels/random/random_philox.h"
#undef ATALLA_ISA
#ifndef ATALLA_TEST_KERNEL_TABLE
#define ATALLA_ISA baseline
#endif

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;
constexpr int kGroups = atalla::sim::test_isa::kPhiloxGroups;

atalla_status launch(const char* name, std::vector<Tensor*> operands, int64_t seed, int64_t offset, double p0 = 0,
                     double p1 = 0, int64_t low = 0, int64_t high = 0) {
  atalla_launch_desc d{};
  d.n_outputs = 1;
  d.compute_dtype = operands[0]->dtype;
  d.iparams[0] = seed, d.iparams[1] = offset, d.iparams[2] = low, d.iparams[3] = high;
  d.fparams[0] = p0, d.fparams[1] = p1;
  return run_kernel(name, d, operands);
}

// Random123's kat_vectors for philox4x32-10: counter, key, result.
void known_answers() {
  struct Vector {
    uint64_t counter, stream, key;
    uint32_t words[4];
  };
  const Vector vectors[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x85a308d3243f6a88ull,
       0x0370734413198a2eull,
       0x299f31d0a4093822ull,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Vector& v : vectors) {
    uint32_t word[4][kGroups];
    atalla::sim::test_isa::philox_4x32_10(v.key, v.counter, v.stream, word);
    for (int w = 0; w < 4; ++w) CHECK_EQ(word[w][0], v.words[w]);
    // The last lane is a counter of its own.
    uint32_t other[4][kGroups];
    atalla::sim::test_isa::philox_4x32_10(v.key, v.counter + kGroups - 1, v.stream, other);
    for (int w = 0; w < 4; ++w) CHECK_EQ(word[w][kGroups - 1], other[w][0]);
  }
}

// The kernel's words are those of the counters that docs/reference/kernels.md gives.
void counters() {
  Tensor out(ATALLA_F32, {64});
  CHECK_EQ(launch("random.uniform", {&out}, 0, 0, 0, 1), ATALLA_OK);
  uint32_t word[4][kGroups];
  atalla::sim::test_isa::philox_4x32_10(0, 0, 0, word);
  CHECK_EQ(out.get({0}), (0x6627e8d5 >> 8) * 0x1p-24);
  for (int64_t i = 0; i < 64; ++i) CHECK_EQ(out.get({i}), (word[i % 4][i / 4] >> 8) * 0x1p-24);

  const int64_t seed = 0x123456789abcdef;
  for (const char* name : {"random.uniform", "random.normal"}) {
    for (const atalla_dtype d : {ATALLA_F32, ATALLA_F64, ATALLA_F16, ATALLA_BF16}) {
      Tensor whole(d, {4096 * 5 + 3}), columns(d, {131, 37}, {1, 0}), rows(d, {131, 37});
      CHECK_EQ(launch(name, {&whole}, seed, 7, 0, 1), ATALLA_OK);
      bool same = true;
      for (const int64_t begin : {1, 2, 3, 4, 63, 64, 65, 1000, 4096 * 5 + 2}) {
        Tensor later(d, {4096 * 5 + 3 - begin});
        CHECK_EQ(launch(name, {&later}, seed, 7 + begin, 0, 1), ATALLA_OK);
        later.each([&](const Index& i) { same = same && later.get(i) == whole.get({i[0] + begin}); });
      }
      CHECK(same);
      CHECK_EQ(launch(name, {&rows}, seed, 7, 0, 1), ATALLA_OK);
      CHECK_EQ(launch(name, {&columns}, seed, 7, 0, 1), ATALLA_OK);
      rows.each([&](const Index& i) {
        same = same && rows.get(i) == columns.get(i) && rows.get(i) == whole.get({i[0] * 37 + i[1]});
      });
      CHECK(same);
      Tensor single = whole;
      set_threads(1);
      CHECK_EQ(launch(name, {&single}, seed, 7, 0, 1), ATALLA_OK);
      set_threads(2);
      CHECK(single.bytes == whole.bytes);
    }
  }
}

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, least = INFINITY, most = -INFINITY, lag = 0;
};

Moments moments(const Tensor& t) {
  Moments m;
  const double n = static_cast<double>(t.sizes[0]);
  for (int64_t i = 0; i < t.sizes[0]; ++i) {
    const double x = t.get_at(i);
    m.mean += x / n;
    m.least = std::fmin(m.least, x);
    m.most = std::fmax(m.most, x);
  }
  for (int64_t i = 0; i < t.sizes[0]; ++i) {
    const double d = t.get_at(i) - m.mean;
    m.variance += d * d / n;
    m.skew += d * d * d / n;
    m.kurtosis += d * d * d * d / n;
    if (i > 0) m.lag += d * (t.get_at(i - 1) - m.mean) / n;
  }
  m.skew /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  m.lag /= m.variance;
  return m;
}

void distributions() {
  constexpr int64_t n = 400000;
  const double error = 5 / std::sqrt(static_cast<double>(n));  // five standard errors of a mean
  for (const atalla_dtype d : {ATALLA_F32, ATALLA_F64, ATALLA_F16, ATALLA_BF16}) {
    Tensor t(d, {n});
    CHECK_EQ(launch("random.uniform", {&t}, 42, 0, -2, 6), ATALLA_OK);
    Moments m = moments(t);
    CHECK(m.least >= -2 && m.most < 6);
    const double grid = d == ATALLA_BF16 ? 8.0 / 256 : 8.0 / 2048;  // truncation to the type's bits lowers the mean
    CHECK(std::fabs(m.mean - 2) < grid + 2.31 * error);
    CHECK(std::fabs(m.variance - 64.0 / 12) < 0.06);
    CHECK(std::fabs(m.lag) < error);

    CHECK_EQ(launch("random.normal", {&t}, 43, 0, 1, 2), ATALLA_OK);
    m = moments(t);
    CHECK(std::fabs(m.mean - 1) < 2 * error);
    CHECK(std::fabs(m.variance - 4) < 4 * 1.42 * error + 0.01);
    CHECK(std::fabs(m.skew) < 2.45 * error + 0.005);
    CHECK(std::fabs(m.kurtosis - 3) < 4.9 * error + 0.01);
    CHECK(std::fabs(m.lag) < error);
    CHECK(m.most > 9 && m.least < -7);  // four deviations out, a million draws apart
  }
  // Half types never reach the upper bound by rounding.
  for (const atalla_dtype d : {ATALLA_F16, ATALLA_BF16, ATALLA_F32}) {
    Tensor t(d, {n});
    CHECK_EQ(launch("random.uniform", {&t}, 1, 0, 1000, 1001), ATALLA_OK);
    const Moments m = moments(t);
    CHECK(m.least >= 1000 && m.most < 1001);
  }
  Tensor t(ATALLA_F32, {5});
  CHECK_EQ(launch("random.uniform", {&t}, 1, 0, 3, 3), ATALLA_OK);
  CHECK_EQ(t.get({4}), 3);
  CHECK_EQ(launch("random.normal", {&t}, 1, 0, 3, 0), ATALLA_OK);
  CHECK_EQ(t.get({4}), 3);
}

void integers() {
  constexpr int64_t n = 100000;
  for (const atalla_dtype d : {ATALLA_I64, ATALLA_I32, ATALLA_I16, ATALLA_I8, ATALLA_F32, ATALLA_F16}) {
    Tensor t(d, {n});
    CHECK_EQ(launch("random.integer", {&t}, 9, 0, 0, 0, -3, 7), ATALLA_OK);
    int count[10] = {};
    bool inside = true;
    t.each([&](const Index& i) {
      const int64_t v = t.get_integer(i);
      inside = inside && v >= -3 && v < 7;
      if (inside) ++count[v + 3];
    });
    CHECK(inside);
    for (const int c : count) CHECK(std::abs(c - 10000) < 5 * 95);  // five deviations
  }
  Tensor t(ATALLA_I64, {n});
  CHECK_EQ(launch("random.integer", {&t}, 9, 0, 0, 0, INT64_MIN, INT64_MAX), ATALLA_OK);
  int64_t ones[64] = {};
  t.each([&](const Index& i) {
    for (int b = 0; b < 64; ++b) ones[b] += (t.get_integer(i) >> b) & 1;
  });
  for (const int64_t c : ones) CHECK(std::abs(c - n / 2) < 5 * 158);
  CHECK_EQ(launch("random.integer", {&t}, 9, 0, 0, 0, INT64_MIN, INT64_MIN), ATALLA_OK);  // all 2^64 values
  CHECK_EQ(launch("random.integer", {&t}, 9, 0, 0, 0, 5, 6), ATALLA_OK);
  CHECK_EQ(t.get_integer({n - 1}), 5);
  Tensor flags(ATALLA_BOOL, {n});
  CHECK_EQ(launch("random.integer", {&flags}, 9, 0, 0, 0, 0, 2), ATALLA_OK);
  CHECK(std::fabs(moments(flags).mean - 0.5) < 0.01);
}

void bernoulli() {
  Random random;
  for (const atalla_dtype d : {ATALLA_F32, ATALLA_F64, ATALLA_F16}) {
    Tensor p(d, {300, 700}), column(d, {300, 700}, {}, 1, 2), out(ATALLA_BOOL, {300, 700}),
        reals(ATALLA_F32, {300, 700}, {1, 0});
    const auto put = [](Tensor& t, const Index& i, double x) {
      if (x != 0) return t.set(i, x);
      std::memset(t.bytes.data() + t.offset(i) * static_cast<int64_t>(item_size(t.dtype)), 0, item_size(t.dtype));
    };
    p.each([&](const Index& i) { put(p, i, i[1] % 3 == 0 ? 0 : i[1] % 3 == 1 ? 1 : 0.25); });
    CHECK_EQ(launch("random.bernoulli", {&out, &p}, 3, 4), ATALLA_OK);
    int64_t quarter = 0, wrong = 0;
    out.each([&](const Index& i) {
      if (i[1] % 3 == 2) quarter += out.get(i) != 0;
      else wrong += out.get(i) != p.get(i);
    });
    CHECK_EQ(wrong, 0);
    CHECK(std::abs(quarter - 300 * 233 / 4) < 5 * 115);
    CHECK_EQ(launch("random.bernoulli", {&reals, &p}, 3, 4), ATALLA_OK);
    out.each([&](const Index& i) { wrong += out.get(i) != reals.get(i); });
    CHECK_EQ(wrong, 0);
    column.each([&](const Index& i) { put(column, i, static_cast<double>(i[0] % 2)); });
    CHECK_EQ(launch("random.bernoulli", {&out, &column}, 3, 4), ATALLA_OK);
    out.each([&](const Index& i) { wrong += out.get(i) != static_cast<double>(i[0] % 2); });
    CHECK_EQ(wrong, 0);
    Tensor one(d, {300, 700}, {}, 1, 3);
    one.set({0, 0}, 1);
    CHECK_EQ(launch("random.bernoulli", {&out, &one}, 3, 4), ATALLA_OK);
    out.each([&](const Index& i) { wrong += out.get(i) != 1; });
    CHECK_EQ(wrong, 0);
  }
}

// A probability of each element's own, and rejection: an element's value goes with its position in the sequence.
void positions() {
  constexpr int64_t n = 3000;
  const auto part = [](const Tensor& t, int64_t begin) {
    Tensor tail(t.dtype, {t.sizes[0] - begin});
    tail.each([&](const Index& i) { tail.set(i, t.get({i[0] + begin})); });
    return tail;
  };
  Tensor p(ATALLA_F32, {n}), rate(ATALLA_F64, {n}), count(ATALLA_F64, {n});
  p.each([&](const Index& i) { p.set(i, static_cast<double>(i[0] % 17 + 1) / 20); });
  rate.each([&](const Index& i) { rate.set(i, 0.5 + static_cast<double>(i[0] % 31)); });
  count.each([&](const Index& i) { count.set(i, static_cast<double>(1 + i[0] % 40)); });
  const Tensor prob = p;
  struct Case {
    const char* name;
    atalla_dtype out;
    std::vector<const Tensor*> parameters;
  };
  for (const Case& c : {Case{"random.bernoulli", ATALLA_U8, {&p}}, Case{"random.poisson", ATALLA_F64, {&rate}},
                        Case{"random.gamma", ATALLA_F64, {&rate}}, Case{"random.binomial", ATALLA_F64, {&count, &prob}},
                        Case{"random.integer", ATALLA_I64, {}}}) {
    const auto draw = [&](int64_t begin) {
      Tensor out(c.out, {n - begin});
      std::vector<Tensor> own;
      for (const Tensor* t : c.parameters) own.push_back(part(*t, begin));
      std::vector<Tensor*> operands{&out};
      for (Tensor& t : own) operands.push_back(&t);
      CHECK_EQ(launch(c.name, operands, 5, 21 + begin, 0, 0, 0, 1000), ATALLA_OK);
      return out;
    };
    const Tensor whole = draw(0);
    for (const int64_t begin : {1, 2, 3, 5, 64, 1027, 2999}) {
      const Tensor later = draw(begin);
      bool same = true;
      later.each([&](const Index& i) { same = same && later.get(i) == whole.get({i[0] + begin}); });
      CHECK(same);
    }
  }
}

}  // namespace

int main() {
  known_answers();
  counters();
  distributions();
  integers();
  bernoulli();
  positions();
  return check_report();
}
