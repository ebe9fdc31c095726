// SPDX-License-Identifier: BSD-3-Clause
//
// optimizer.adam, .sgd and .adagrad against plain references in double, and what leaves operands as they are.
#include <algorithm>
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

bool near(double a, double b, double eps) { return std::fabs(a - b) <= eps * (1 + std::fabs(b)); }

// Parameter, gradient and three states, over the same sizes; each with an order of dimensions of its own if `strided`.
struct Operands {
  Tensor t[5], step{ATALLA_F32, {}}, rate{ATALLA_F32, {}}, scale{ATALLA_F32, {}}, found{ATALLA_F32, {}};
  Operands(atalla_dtype dtype, const Index& sizes, bool strided, Random& random) {
    for (int k = 0; k < 5; ++k) {
      t[k] = Tensor(dtype, sizes, strided && k % 2 == 0 ? std::vector<int>{1, 0} : std::vector<int>{}, strided ? 2 : 1);
      t[k].each([&](const Index& i) { t[k].set(i, k < 2 ? random.uniform(-1, 1) : random.uniform(0.1, 1)); });
    }
    step.set({}, 3), rate.set({}, 0.125), scale.set({}, 4), found.set({}, 0);
  }
  std::vector<Tensor*> list(bool last_state, bool scaled) {
    return {&t[0], &t[1], &t[2], &t[3], last_state ? &t[4] : nullptr, &step, &rate, scaled ? &scale : nullptr, &found};
  }
};

atalla_launch_desc desc(atalla_dtype compute) {
  atalla_launch_desc d{};
  d.n_outputs = 5;
  d.compute_dtype = compute;
  d.fparams[1] = 0.875, d.fparams[2] = 0.75, d.fparams[3] = 0.25, d.fparams[4] = 1e-3;
  return d;
}

double tolerance(atalla_dtype d) { return d == ATALLA_F64 ? 1e-12 : d == ATALLA_F32 ? 1e-5 : 2e-2; }

void adam() {
  Random random;
  for (const atalla_dtype dtype : {ATALLA_BF16, ATALLA_F32, ATALLA_F64}) {
    for (int form = 0; form < 16; ++form) {
      const bool decoupled = form & 1, maximum = form & 2, scaled = form & 4, strided = form & 8;
      Operands o(dtype, {37, 29}, strided, random), before = o;
      atalla_launch_desc d = desc(dtype);
      d.iparams[0] = decoupled, d.iparams[1] = 1;
      CHECK_EQ(run_kernel("optimizer.adam", d, o.list(maximum, scaled)), ATALLA_OK);
      int wrong = 0;
      o.t[0].each([&](const Index& i) {
        const double p = before.t[0].get(i), unscaled = before.t[1].get(i) / (scaled ? 4 : 1);
        const double g = decoupled ? -unscaled : -unscaled + 0.25 * p, start = decoupled ? p * (1 - 0.125 * 0.25) : p;
        const double m = 0.875 * before.t[2].get(i) + 0.125 * g, v = 0.75 * before.t[3].get(i) + 0.25 * g * g;
        const double second = maximum ? std::max(v, before.t[4].get(i)) : v;
        const double root = std::sqrt(second) / std::sqrt(1 - std::pow(0.75, 3)) + 1e-3;
        const double limit = tolerance(dtype);
        wrong += !near(o.t[0].get(i), start - 0.125 / (1 - std::pow(0.875, 3)) * m / root, 2 * limit) +
                 !near(o.t[1].get(i), unscaled, limit) + !near(o.t[2].get(i), m, limit) +
                 !near(o.t[3].get(i), v, limit);
        if (maximum) wrong += !near(o.t[4].get(i), second, limit);
      });
      CHECK_EQ(wrong, 0);
      if (!scaled) CHECK(o.t[1].bytes == before.t[1].bytes);
    }
  }
}

void sgd() {
  Random random;
  for (int form = 0; form < 8; ++form) {
    const bool nesterov = form & 1, first = form & 2, momentum = form & 4;
    Operands o(ATALLA_F64, {700}, false, random), before = o;
    atalla_launch_desc d = desc(ATALLA_F64);
    d.iparams[0] = nesterov, d.iparams[2] = first;
    if (!momentum) d.fparams[1] = 0;
    CHECK_EQ(run_kernel("optimizer.sgd", d,
                        {&o.t[0], &o.t[1], momentum ? &o.t[2] : nullptr, nullptr, nullptr, nullptr, &o.rate, nullptr,
                         nullptr}),
             ATALLA_OK);
    int wrong = 0;
    o.t[0].each([&](const Index& i) {
      const double p = before.t[0].get(i), g = before.t[1].get(i) + 0.25 * p;
      const double buffer = first ? g : 0.875 * before.t[2].get(i) + 0.25 * g;
      const double direction = !momentum ? g : nesterov ? g + 0.875 * buffer : buffer;
      wrong += !near(o.t[0].get(i), p - 0.125 * direction, 1e-14);
      if (momentum) wrong += !near(o.t[2].get(i), buffer, 1e-14);
    });
    CHECK_EQ(wrong, 0);
  }
}

void adagrad() {
  Random random;
  Operands o(ATALLA_F64, {5, 9}, true, random), before = o;
  atalla_launch_desc d = desc(ATALLA_F64);
  CHECK_EQ(run_kernel("optimizer.adagrad", d,
                      {&o.t[0], &o.t[1], &o.t[2], nullptr, nullptr, &o.step, &o.rate, nullptr, nullptr}),
           ATALLA_OK);
  int wrong = 0;
  o.t[0].each([&](const Index& i) {
    const double p = before.t[0].get(i), g = before.t[1].get(i) + 0.25 * p, sum = before.t[2].get(i) + g * g;
    wrong += !near(o.t[0].get(i), p - 0.125 / (1 + 2 * 0.875) * g / (std::sqrt(sum) + 1e-3), 1e-13) +
             !near(o.t[2].get(i), sum, 1e-14);
  });
  CHECK_EQ(wrong, 0);
}

void found_inf_and_errors() {
  Random random;
  Operands o(ATALLA_F32, {50}, false, random);
  o.found.set({}, 1);
  Operands before = o;
  atalla_launch_desc d = desc(ATALLA_F32);
  CHECK_EQ(run_kernel("optimizer.adam", d, o.list(false, true)), ATALLA_OK);
  for (int k = 0; k < 4; ++k) CHECK(o.t[k].bytes == before.t[k].bytes);
  CHECK_EQ(run_kernel("optimizer.adam", d,
                      {&o.t[0], &o.t[1], &o.t[2], &o.t[3], nullptr, nullptr, &o.rate, nullptr, nullptr}),
           ATALLA_ERR_ARGUMENT);
  Tensor other(ATALLA_F32, {49});
  CHECK_EQ(
      run_kernel("optimizer.adam", d, {&o.t[0], &other, &o.t[2], &o.t[3], nullptr, &o.step, &o.rate, nullptr, nullptr}),
      ATALLA_ERR_ARGUMENT);
}

}  // namespace

int main() {
  adam();
  sgd();
  adagrad();
  found_inf_and_errors();
  return check_report();
}
