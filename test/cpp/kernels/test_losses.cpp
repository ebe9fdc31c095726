// SPDX-License-Identifier: BSD-3-Clause
//
// The margin losses and ctc_loss on small inputs against plain references; gradients against differences; faults.
#include <cstdio>
#include <functional>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

atalla_launch_desc desc(int outputs, atalla_dtype compute, std::initializer_list<int64_t> iparams, double fparam = 0) {
  atalla_launch_desc d{};
  d.n_outputs = static_cast<uint8_t>(outputs);
  d.compute_dtype = compute;
  int i = 0;
  for (int64_t p : iparams) d.iparams[i++] = p;
  d.fparams[0] = fparam;
  return d;
}

bool near(double a, double b, double eps) { return std::fabs(a - b) <= eps * (1 + std::fabs(b)); }

// `gradient` against central differences of `value` in x.
void check_gradient(Tensor& x, const Tensor& gradient, const std::function<double()>& value) {
  int wrong = 0;
  x.each([&](const Index& i) {
    const double kept = x.get(i), h = 1e-5;
    x.set(i, kept + h);
    const double above = value();
    x.set(i, kept - h);
    const double below = value();
    x.set(i, kept);
    wrong += !near(gradient.get(i), (above - below) / (2 * h), 1e-5);
  });
  CHECK_EQ(wrong, 0);
}

void margins() {
  Random random;
  Tensor in(ATALLA_F64, {4, 5}), target(ATALLA_I64, {4}), labels(ATALLA_I64, {4, 5}), weight(ATALLA_F64, {5}),
      loss(ATALLA_F64, {}), is_target = in, gradient = in, one(ATALLA_F64, {4}, {}, 1, 1);
  random.fill(in);
  random.fill(weight);
  target.each([&](const Index& i) { target.set(i, static_cast<double>(random.below(5))); });
  labels.each([&](const Index& i) { labels.set(i, i[1] < 2 ? static_cast<double>((i[0] + 2 * i[1]) % 5) : -1); });
  one.set({0}, 1);
  for (const int64_t p : {1, 2}) {
    const auto value = [&] {
      auto d = desc(1, ATALLA_F64, {1, p}, 0.7);
      CHECK_EQ(run_kernel("multi_margin_loss", d, {&loss, &in, &target, &weight}), ATALLA_OK);
      return loss.get({});
    };
    double sum = 0;
    for (int64_t r = 0; r < 4; ++r) {
      const int64_t t = target.get_integer({r});
      for (int64_t j = 0; j < 5; ++j) {
        const double z = 0.7 - in.get({r, t}) + in.get({r, j});
        if (j != t && z > 0) sum += std::pow(z, static_cast<double>(p)) * weight.get({t}) / 20;
      }
    }
    CHECK(near(value(), sum, 1e-13));
    auto d = desc(1, ATALLA_F64, {1, p}, 0.7);
    CHECK_EQ(run_kernel("multi_margin_loss_backward", d, {&gradient, &one, &in, &target, &weight}), ATALLA_OK);
    check_gradient(in, gradient, value);
  }
  const auto value = [&] {
    auto d = desc(2, ATALLA_F64, {2});
    CHECK_EQ(run_kernel("multilabel_margin_loss", d, {&loss, &is_target, &in, &labels}), ATALLA_OK);
    return loss.get({});
  };
  double sum = 0;
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t k = 0; k < 2; ++k) {
      for (int64_t j = 0; j < 5; ++j) {
        if (j == labels.get_integer({r, 0}) || j == labels.get_integer({r, 1})) continue;
        sum += std::fmax(0, 1 - in.get({r, labels.get_integer({r, k})}) + in.get({r, j})) / 5;
      }
    }
  }
  CHECK(near(value(), sum, 1e-13));
  auto d = desc(1, ATALLA_F64, {2});
  CHECK_EQ(run_kernel("multilabel_margin_loss_backward", d, {&gradient, &one, &in, &labels, &is_target}), ATALLA_OK);
  check_gradient(in, gradient, value);
  target.set({2}, 5);
  auto bad = desc(1, ATALLA_F64, {1, 1}, 1);
  CHECK_EQ(run_kernel("multi_margin_loss", bad, {&loss, &in, &target, nullptr}), ATALLA_ERR_FAULT_KERNEL);
}

void targets_out_of_range() {
  Tensor in(ATALLA_F32, {2, 3, 1}), target(ATALLA_I64, {2, 1}), loss(ATALLA_F32, {2, 1}), total(ATALLA_F32, {});
  in.each([&](const Index& i) { in.set(i, 1); });
  target.set({0, 0}, 1), target.set({1, 0}, 3);
  auto d = desc(2, ATALLA_F32, {0, -100});
  CHECK_EQ(run_kernel("nll_loss", d, {&loss, &total, &in, &target, nullptr}), ATALLA_ERR_FAULT_INDEX);
  CHECK(last_error().find("Target 3 is out of bounds") != std::string::npos);
}

// The likelihood as the sum over all paths.
void ctc() {
  Random random;
  const int64_t time = 5, classes = 3;
  Tensor x(ATALLA_F64, {time, 2, classes}), targets(ATALLA_I64, {2, 2}), steps(ATALLA_I64, {2}),
      lengths = steps, nll(ATALLA_F64, {2}), alpha(ATALLA_F64, {2, time, 5});
  x.each([&](const Index& i) { x.set(i, std::log(random.uniform(0.1, 1))); });
  targets.set({0, 0}, 1), targets.set({0, 1}, 1), targets.set({1, 0}, 2), targets.set({1, 1}, 1);
  steps.set({0}, 5), steps.set({1}, 4), lengths.set({0}, 2), lengths.set({1}, 1);
  auto d = desc(2, ATALLA_F64, {0});
  CHECK_EQ(run_kernel("ctc_loss", d, {&nll, &alpha, &x, &targets, &steps, &lengths}), ATALLA_OK);
  for (int64_t b = 0; b < 2; ++b) {
    const int64_t length = steps.get_integer({b});
    double likelihood = 0;
    int64_t paths = 1;
    for (int64_t t = 0; t < length; ++t) paths *= classes;
    for (int64_t path = 0; path < paths; ++path) {
      std::vector<int64_t> found;
      double log_p = 0;
      int64_t last = -1;
      for (int64_t t = 0, rest = path; t < length; ++t, rest /= classes) {
        const int64_t c = rest % classes;
        log_p += x.get({t, b, c});
        if (c != last && c != 0) found.push_back(c);
        last = c;
      }
      bool same = static_cast<int64_t>(found.size()) == lengths.get_integer({b});
      for (size_t u = 0; same && u < found.size(); ++u)
        same = found[u] == targets.get_integer({b, static_cast<int64_t>(u)});
      if (same) likelihood += std::exp(log_p);
    }
    CHECK(near(nll.get({b}), -std::log(likelihood), 1e-12));
  }
  // The gradient is that of what log_softmax takes: the probabilities less those of the paths.
  Tensor gradient = x, one(ATALLA_F64, {2});
  one.each([&](const Index& i) { one.set(i, 1); });
  auto backward = desc(1, ATALLA_F64, {0});
  CHECK_EQ(run_kernel("ctc_loss_backward", backward, {&gradient, &alpha, &x, &targets, &steps, &lengths, &one, &nll}),
           ATALLA_OK);
  gradient.each([&](const Index& i) {
    if (i[0] < steps.get_integer({i[1]})) gradient.set(i, gradient.get(i) - std::exp(x.get(i)));
    else CHECK_EQ(gradient.get(i), 0.0);
  });
  check_gradient(x, gradient, [&] {
    CHECK_EQ(run_kernel("ctc_loss", d, {&nll, &alpha, &x, &targets, &steps, &lengths}), ATALLA_OK);
    return nll.get({0}) + nll.get({1});
  });
  targets.set({0, 1}, 3);
  CHECK_EQ(run_kernel("ctc_loss", d, {&nll, &alpha, &x, &targets, &steps, &lengths}), ATALLA_ERR_FAULT_INDEX);
  steps.set({0}, 6);
  CHECK_EQ(run_kernel("ctc_loss", d, {&nll, &alpha, &x, &targets, &steps, &lengths}), ATALLA_ERR_ARGUMENT);
}

}  // namespace

int main() {
  targets_out_of_range();
  margins();
  ctc();
  return check_report();
}
