// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions against naive references in double: every mask of dimensions, layouts, dtypes, NaN, empty inputs, and that
// results do not depend on threads.
#include <algorithm>
#include <limits>

#include "check.h"
#include "kernels/harness.h"

namespace {

using namespace kernel_test;
using Index = std::vector<int64_t>;
using Values = std::vector<double>;

struct Reduction {
  const char* kernel;
  double (*f)(const Values&);
  bool integers;
  atalla_dtype result;  // 255: the input's (of the integers: I64 if `wide`)
  bool wide;
};

double sum(const Values& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}
double squares(const Values& v) {
  const double mean = sum(v) / static_cast<double>(v.size());
  double s = 0;
  for (double x : v) s += (x - mean) * (x - mean);
  return s;
}
double logsumexp(const Values& v) {
  double s = 0;
  for (double x : v) s += std::exp(x);
  return std::log(s);
}

constexpr atalla_dtype kSame = 255;
const Reduction kReductions[] = {
    {"reduce.sum", sum, true, kSame, true},
    {"reduce.mean", [](const Values& v) { return sum(v) / static_cast<double>(v.size()); }, false, kSame, false},
    {"reduce.amax", [](const Values& v) { return *std::max_element(v.begin(), v.end()); }, true, kSame, false},
    {"reduce.amin", [](const Values& v) { return *std::min_element(v.begin(), v.end()); }, true, kSame, false},
    {"reduce.any",
     [](const Values& v) { return double(std::any_of(v.begin(), v.end(), [](double x) { return x != 0; })); }, true,
     ATALLA_BOOL, false},
    {"reduce.all",
     [](const Values& v) { return double(std::all_of(v.begin(), v.end(), [](double x) { return x != 0; })); }, true,
     ATALLA_BOOL, false},
    {"reduce.logsumexp", logsumexp, false, kSame, false},
    {"reduce.var", [](const Values& v) { return squares(v) / (static_cast<double>(v.size()) - 1); }, false, kSame,
     false},
    {"reduce.std", [](const Values& v) { return std::sqrt(squares(v) / (static_cast<double>(v.size()) - 1)); }, false,
     kSame, false},
};

Tensor output(atalla_dtype d, const Tensor& in, uint64_t mask) {
  Index sizes = in.sizes;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (mask >> k & 1) sizes[k] = 1;
  }
  Tensor out(d, sizes);
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (mask >> k & 1) out.strides[k] = 0;
  }
  return out;
}

// The elements that are reduced into `index` of the output, in row-major order.
Values gather(const Tensor& in, uint64_t mask, const Index& index) {
  Values found;
  in.each([&](const Index& i) {
    for (size_t k = 0; k < i.size(); ++k) {
      if (!(mask >> k & 1) && i[k] != index[k]) return;
    }
    found.push_back(in.get(i));
  });
  return found;
}

atalla_status reduce(const char* kernel, atalla_dtype compute, std::vector<Tensor*> operands, uint64_t mask,
                     double correction = 1) {
  atalla_launch_desc desc{};
  desc.n_outputs = static_cast<uint8_t>(operands.size() - 1);
  desc.compute_dtype = compute;
  desc.iparams[0] = static_cast<int64_t>(mask);
  desc.fparams[0] = correction;
  return run_kernel(kernel, desc, operands);
}

double tolerance(atalla_dtype d) {
  return d == ATALLA_F64 ? 1e-12 : d == ATALLA_F32 ? 3e-6 : d == ATALLA_F16 ? 2e-3 : d == ATALLA_BF16 ? 1.6e-2 : 0;
}
bool close(double got, double expected, double relative) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return got == expected;
  return std::fabs(got - expected) <= relative * std::max(1.0, std::fabs(expected));
}

std::vector<Tensor> inputs(atalla_dtype d) {
  std::vector<Tensor> found = {Tensor(d, {5}),          Tensor(d, {1500}),
                               Tensor(d, {33, 40}),     Tensor(d, {33, 40}, {1, 0}),
                               Tensor(d, {7, 90, 5}),   Tensor(d, {7, 90, 5}, {1, 2, 0}, 2),
                               Tensor(d, {3, 4, 5, 6}), Tensor(d, {40, 9}, {}, 1, 1),
                               Tensor(d, {1, 1, 17})};
  Random random;
  for (Tensor& t : found) random.fill(t);
  return found;
}

void test_values() {
  for (atalla_dtype d :
       {ATALLA_F32, ATALLA_F64, ATALLA_F16, ATALLA_BF16, ATALLA_I8, ATALLA_I32, ATALLA_I64, ATALLA_BOOL}) {
    const auto dtype = static_cast<atalla_dtype>(d);
    const bool floating = tolerance(dtype) > 0;
    for (Tensor& in : inputs(dtype)) {
      for (uint64_t mask = 1; mask < uint64_t{1} << in.sizes.size(); ++mask) {
        for (const Reduction& r : kReductions) {
          if (!floating && !r.integers) continue;
          const atalla_dtype compute = !floating && r.wide ? static_cast<atalla_dtype>(ATALLA_I64) : dtype;
          Tensor out = output(r.result == kSame ? compute : r.result, in, mask);
          if (!CHECK_EQ(reduce(r.kernel, compute, {&out, &in}, mask), ATALLA_OK)) continue;
          int wrong = 0;
          out.each([&](const Index& i) { wrong += !close(out.get(i), r.f(gather(in, mask, i)), tolerance(dtype)); });
          check::note(wrong == 0, __FILE__, __LINE__,
                      std::string(r.kernel) + " " + dtype_name(dtype) + " mask " + std::to_string(mask) + ": " +
                          std::to_string(wrong) + " wrong");
        }
      }
    }
  }
}

void test_indices() {
  for (atalla_dtype d : {ATALLA_F32, ATALLA_BF16, ATALLA_U8, ATALLA_I64}) {
    for (Tensor& in : inputs(d)) {
      const uint64_t all = (uint64_t{1} << in.sizes.size()) - 1;
      for (uint64_t mask = 1; mask <= all; ++mask) {
        if (mask != all && (mask & (mask - 1)) != 0) continue;
        Tensor most = output(ATALLA_I64, in, mask), least = most, value = output(d, in, mask), place = most;
        CHECK_EQ(reduce("reduce.argmax", d, {&most, &in}, mask), ATALLA_OK);
        CHECK_EQ(reduce("reduce.argmin", d, {&least, &in}, mask), ATALLA_OK);
        CHECK_EQ(reduce("reduce.max_dim", d, {&value, &place, &in}, mask), ATALLA_OK);
        int wrong = 0;
        most.each([&](const Index& i) {
          const Values v = gather(in, mask, i);
          const auto largest = std::max_element(v.begin(), v.end()), smallest = std::min_element(v.begin(), v.end());
          wrong += most.get_integer(i) != largest - v.begin() || least.get_integer(i) != smallest - v.begin() ||
                   place.get_integer(i) != largest - v.begin() || value.get(i) != *largest;
        });
        CHECK_EQ(wrong, 0);
      }
    }
  }
}

void test_nan() {
  for (uint64_t mask : {1, 2, 3}) {
    Tensor in(ATALLA_F32, {50, 60}), largest = output(ATALLA_F32, in, mask), place = output(ATALLA_I64, in, mask);
    Random random;
    random.fill(in);
    in.set({20, 30}, NAN);
    in.set({20, 31}, NAN);
    in.set({21, 30}, NAN);
    Tensor smallest = largest;
    CHECK_EQ(reduce("reduce.amax", ATALLA_F32, {&largest, &in}, mask), ATALLA_OK);
    CHECK_EQ(reduce("reduce.amin", ATALLA_F32, {&smallest, &in}, mask), ATALLA_OK);
    CHECK_EQ(reduce("reduce.argmax", ATALLA_F32, {&place, &in}, mask), ATALLA_OK);
    const Index at = {mask & 1 ? 0 : 20, mask & 2 ? 0 : 30};
    CHECK(std::isnan(largest.get(at)));
    CHECK(std::isnan(smallest.get(at)));
    CHECK_EQ(place.get_integer(at), mask == 1 ? 20 : mask == 2 ? 30 : 20 * 60 + 30);
  }
}

// Rows around the lengths of vector lanes and blocks, with infinities of both signs and a NaN anywhere or nowhere.
void test_extremes() {
  Random random;
  for (atalla_dtype d : {ATALLA_F32, ATALLA_F64, ATALLA_F16, ATALLA_BF16}) {
    for (const int64_t n : {15, 16, 17, 63, 64, 65, 127, 129, 255, 257, 1023, 1025, 70000}) {
      for (const int64_t nan_at : {int64_t{-1}, int64_t{0}, n / 3, n - 1}) {
        Tensor in(d, {n});
        random.fill(in);
        if (n % 2 == 1) in.set({n / 2}, INFINITY), in.set({n / 4}, -INFINITY);
        if (nan_at >= 0) in.set({nan_at}, NAN);
        const Values all = gather(in, 1, {0});
        double most = all[0], least = all[0], magnitude = 0;
        for (const double x : all) {
          most = std::max(most, x), least = std::min(least, x), magnitude = std::max(magnitude, std::fabs(x));
        }
        if (nan_at >= 0) most = least = magnitude = NAN;
        const std::pair<const char*, double> expected[] = {
            {"reduce.amax", most}, {"reduce.amin", least}, {"reduce.norm_inf", magnitude}};
        for (const auto& [kernel, value] : expected) {
          Tensor one = output(d, in, 1), two = one;
          set_threads(1);
          CHECK_EQ(reduce(kernel, d, {&one, &in}, 1), ATALLA_OK);
          set_threads(2);
          CHECK_EQ(reduce(kernel, d, {&two, &in}, 1), ATALLA_OK);
          CHECK(one.bytes == two.bytes);
          CHECK(close(one.get({0}), value, 0));
        }
      }
    }
  }
}

void test_empty() {
  Tensor in(ATALLA_F32, {0, 3}), out = output(ATALLA_F32, in, 1), truth = output(ATALLA_BOOL, in, 1);
  const std::pair<const char*, double> identities[] = {{"reduce.sum", 0},
                                                       {"reduce.prod", 1},
                                                       {"reduce.mean", NAN},
                                                       {"reduce.logsumexp", -INFINITY},
                                                       {"reduce.var", NAN}};
  for (const auto& [kernel, expected] : identities) {
    CHECK_EQ(reduce(kernel, ATALLA_F32, {&out, &in}, 1), ATALLA_OK);
    CHECK(close(out.get({0, 2}), expected, 0));
  }
  CHECK_EQ(reduce("reduce.any", ATALLA_F32, {&truth, &in}, 1), ATALLA_OK);
  CHECK_EQ(truth.get({0, 1}), 0.0);
  CHECK_EQ(reduce("reduce.all", ATALLA_F32, {&truth, &in}, 1), ATALLA_OK);
  CHECK_EQ(truth.get({0, 1}), 1.0);
  Tensor none = output(ATALLA_F32, in, 2);  // [0, 1]
  CHECK_EQ(reduce("reduce.sum", ATALLA_F32, {&none, &in}, 2), ATALLA_OK);
  Tensor index = output(ATALLA_I64, in, 1);
  CHECK_EQ(reduce("reduce.argmax", ATALLA_F32, {&index, &in}, 1), ATALLA_ERR_ARGUMENT);
}

// Long sums: accurate (pairwise), and the same bits on one thread and two.
void test_threads() {
  const std::pair<Index, uint64_t> cases[] = {
      {{600011}, 1}, {{3, 200003}, 2}, {{200003, 3}, 1}, {{500, 700}, 1}, {{500, 700}, 2}};
  for (const auto& [sizes, mask] : cases) {
    Tensor in(ATALLA_F32, sizes);
    Random random;
    in.each([&](const Index& i) { in.set(i, random.uniform(0, 1)); });
    for (const char* kernel : {"reduce.sum", "reduce.var", "reduce.logsumexp"}) {
      Tensor one = output(ATALLA_F32, in, mask), two = one;
      set_threads(1);
      CHECK_EQ(reduce(kernel, ATALLA_F32, {&one, &in}, mask), ATALLA_OK);
      set_threads(2);
      CHECK_EQ(reduce(kernel, ATALLA_F32, {&two, &in}, mask), ATALLA_OK);
      CHECK(one.bytes == two.bytes);
    }
    if (sizes.size() == 1) {
      Tensor out = output(ATALLA_F32, in, mask);
      CHECK_EQ(reduce("reduce.sum", ATALLA_F32, {&out, &in}, mask), ATALLA_OK);
      CHECK(close(out.get({0}), sum(gather(in, mask, {0})), 3e-7));
    }
  }
}

void test_errors() {
  Tensor in(ATALLA_F32, {3, 4}), wrong(ATALLA_F32, {3, 4});
  CHECK_EQ(reduce("reduce.sum", ATALLA_F32, {&wrong, &in}, 1), ATALLA_ERR_ARGUMENT);
  CHECK(last_error().find("is [3, 4], expected size 1 in dimension 0: a reduced dimension") != std::string::npos);
  CHECK_EQ(reduce("reduce.sum", ATALLA_F32, {&wrong, &in}, 4), ATALLA_ERR_ARGUMENT);
  Tensor out = output(ATALLA_I32, in, 1);
  CHECK_EQ(reduce("reduce.var", ATALLA_I32, {&out, &in}, 1), ATALLA_ERR_UNSUPPORTED);
}

}  // namespace

int main() {
  test_values();
  test_indices();
  test_nan();
  test_extremes();
  test_empty();
  test_threads();
  test_errors();
  return check_report();
}
