// SPDX-License-Identifier: BSD-3-Clause
//
// Pointwise kernels against scalar references in double: dtypes, conversion, special values, and that results do not
// depend on position or threads.
#include <algorithm>

#include "check.h"
#include "kernels/harness.h"

namespace {

using namespace kernel_test;
using Index = std::vector<int64_t>;

const std::vector<atalla_dtype> kFloats = {ATALLA_F32, ATALLA_F64, ATALLA_F16, ATALLA_BF16};
const std::vector<atalla_dtype> kIntegers = {ATALLA_U8, ATALLA_I8, ATALLA_I16, ATALLA_I32, ATALLA_I64};

double tolerance(atalla_dtype d) {
  return d == ATALLA_F64 ? 1e-14 : d == ATALLA_F32 ? 1e-6 : d == ATALLA_F16 ? 1e-3 : d == ATALLA_BF16 ? 8e-3 : 0;
}

// An integer as it is stored in dtype d.
double wrap(double x, atalla_dtype d) {
  const auto i = static_cast<int64_t>(x);
  switch (d) {
    case ATALLA_U8:
      return static_cast<uint8_t>(i);
    case ATALLA_I8:
      return static_cast<int8_t>(i);
    case ATALLA_I16:
      return static_cast<int16_t>(i);
    case ATALLA_I32:
      return static_cast<int32_t>(i);
    case ATALLA_BOOL:
      return x != 0;
    default:
      return x;
  }
}

bool close(double got, double expected, double relative) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return got == expected;
  return std::fabs(got - expected) <= relative * std::max(1.0, std::fabs(expected));
}

using Reference = double (*)(double, double);

bool run_binary(const char* kernel, atalla_dtype compute, Tensor& out, Tensor& a, Tensor& b, double scalar = 1) {
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = compute;
  desc.fparams[0] = scalar;
  desc.iparams[0] = static_cast<int64_t>(scalar);
  const atalla_status status = run_kernel(kernel, desc, {&out, &a, &b});
  return check::note(status == ATALLA_OK, __FILE__, __LINE__, std::string(kernel) + ": " + last_error());
}

void compare(const char* kernel, const Tensor& out, const Tensor& a, const Tensor& b, Reference f, double relative) {
  int wrong = 0;
  Index where;
  out.each([&](const Index& i) {
    const double x = a.get(i), y = b.get(i);
    double expected = f(x, y);
    if (relative == 0) expected = wrap(expected, out.dtype);
    if (!close(out.get(i), expected, relative) && wrong++ == 0) where = i;
  });
  std::string text = std::string(kernel) + " " + dtype_name(a.dtype) + ": " + std::to_string(wrong) + " wrong";
  if (wrong) {
    text += ", first f(" + std::to_string(a.get(where)) + ", " + std::to_string(b.get(where)) +
            ") = " + std::to_string(out.get(where));
  }
  check::note(wrong == 0, __FILE__, __LINE__, text);
}

void test_binary(const char* kernel, Reference f, const std::vector<atalla_dtype>& dtypes, bool truth = false) {
  Random random;
  for (atalla_dtype d : dtypes) {
    for (const Index& sizes : {Index{1}, Index{1027}, Index{33, 70}}) {
      Tensor a(d, sizes), b(d, sizes), out(truth ? static_cast<atalla_dtype>(ATALLA_BOOL) : d, sizes);
      random.fill(a);
      random.fill(b);
      if (run_binary(kernel, d, out, a, b)) compare(kernel, out, a, b, f, truth ? 0 : tolerance(d));
    }
  }
}

void test_arithmetic() {
  std::vector<atalla_dtype> numbers = kFloats;
  numbers.insert(numbers.end(), kIntegers.begin(), kIntegers.end());
  std::vector<atalla_dtype> all = numbers;
  all.push_back(ATALLA_BOOL);
  test_binary("pointwise.add", [](double a, double b) { return a + b; }, all);
  test_binary("pointwise.mul", [](double a, double b) { return a * b; }, numbers);
  test_binary("pointwise.maximum", [](double a, double b) { return std::max(a, b); }, all);
  test_binary("pointwise.lt", [](double a, double b) { return double(a < b); }, all, true);
  test_binary("pointwise.logical_xor", [](double a, double b) { return double((a != 0) != (b != 0)); }, all, true);
  test_binary("pointwise.atan2", [](double a, double b) { return std::atan2(a, b); }, kFloats);
}

// Integer division: signs, the wrapping corner, and the fault.
void test_division() {
  struct Case {
    const char* kernel;
    Reference f;
  };
  const Case cases[] = {
      {"pointwise.fmod", [](double a, double b) { return std::fmod(a, b); }},
      {"pointwise.remainder", [](double a, double b) { return a - b * std::floor(a / b); }},
  };
  for (const Case& c : cases) {
    for (atalla_dtype d : kIntegers) {
      Tensor a(d, {120}), b(d, {120}), out(d, {120});
      Random random;
      random.fill(a);
      random.fill(b);
      b.each([&](const Index& i) {
        if (b.get(i) == 0) b.set(i, 7);
      });
      if (run_binary(c.kernel, d, out, a, b)) compare(c.kernel, out, a, b, c.f, 0);
      b.set({77}, 0);
      atalla_launch_desc desc{};
      desc.n_outputs = 1;
      desc.compute_dtype = d;
      CHECK_EQ(run_kernel(c.kernel, desc, {&out, &a, &b}), ATALLA_ERR_FAULT_KERNEL);
      CHECK(last_error().find("division by zero") != std::string::npos);
    }
    Tensor a(ATALLA_I32, {3}), b(ATALLA_I32, {3}), out(ATALLA_I32, {3});
    a.each([&](const Index& i) { a.set(i, -2147483648.0), b.set(i, -1); });
    if (run_binary(c.kernel, ATALLA_I32, out, a, b)) CHECK_EQ(out.get({1}), 0.0);
  }
}

// Inputs of other dtypes are converted while they are loaded, results while they are stored.
void test_conversion() {
  Random random;
  const std::vector<atalla_dtype> dtypes = {ATALLA_U8,  ATALLA_I8,  ATALLA_I16, ATALLA_I32,  ATALLA_I64,
                                            ATALLA_F16, ATALLA_F32, ATALLA_F64, ATALLA_BOOL, ATALLA_BF16};
  for (atalla_dtype da : dtypes) {
    for (atalla_dtype db : dtypes) {
      Tensor a(da, {37, 11}), b(db, {37, 11}, {1, 0}), out(ATALLA_F64, {37, 11});
      random.fill(a);
      random.fill(b);
      if (run_binary("pointwise.add", ATALLA_F64, out, a, b)) {
        compare("pointwise.add", out, a, b, [](double x, double y) { return x + y; }, 1e-15);
      }
    }
  }
}

struct Function {
  const char* kernel;
  double (*f)(double);
  double low, high;
};

const Function kFunctions[] = {
    {"pointwise.exp", std::exp, -100, 88},
    {"pointwise.exp2", std::exp2, -140, 127},
    {"pointwise.expm1", std::expm1, -20, 80},
    {"pointwise.log", std::log, 0, 1e4},
    {"pointwise.log2", std::log2, 0, 1e4},
    {"pointwise.log10", std::log10, 0, 1e4},
    {"pointwise.log1p", std::log1p, -1, 100},
    {"pointwise.sqrt", std::sqrt, 0, 1e6},
    {"pointwise.sin", std::sin, -1e3, 1e3},
    {"pointwise.cos", std::cos, -1e3, 1e3},
    {"pointwise.asin", std::asin, -1, 1},
    {"pointwise.acos", std::acos, -1, 1},
    {"pointwise.atan", std::atan, -50, 50},
    {"pointwise.sinh", std::sinh, -80, 80},
    {"pointwise.cosh", std::cosh, -80, 80},
    {"pointwise.tanh", std::tanh, -12, 12},
    {"pointwise.erf", std::erf, -5, 5},
    {"pointwise.erfc", std::erfc, -5, 9},
    {"pointwise.floor", std::floor, -9, 9},
    {"pointwise.ceil", std::ceil, -9, 9},
    {"pointwise.trunc", std::trunc, -9, 9},
    {"pointwise.round", std::nearbyint, -9, 9},
    {"pointwise.abs", std::fabs, -9, 9},
    {"pointwise.reciprocal", [](double x) { return 1 / x; }, -9, 9},
    {"pointwise.sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80},
    {"pointwise.silu", [](double x) { return x / (1 + std::exp(-x)); }, -80, 80},
    {"pointwise.gelu_none", [](double x) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }, -9, 9},
};

atalla_status run_unary(const char* kernel, atalla_dtype d, Tensor& out, Tensor& in, int alias = -1) {
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = d;
  return run_kernel(kernel, desc, {&out, &in}, alias);
}

// Values in range, and the values of C's Annex F, which the reference has too.
void test_functions() {
  const double special[] = {0.0,  -0.0, INFINITY, -INFINITY, NAN,    1,    -1,   0.5,
                            -0.5, 1.5,  2.5,      1e-30,     -1e-30, 1e30, -1e30};
  for (const Function& function : kFunctions) {
    for (atalla_dtype d : {ATALLA_F32, ATALLA_F64}) {
      constexpr int64_t n = 4099;
      Tensor in(static_cast<atalla_dtype>(d), {n}), out(static_cast<atalla_dtype>(d), {n});
      Random random;
      for (int64_t i = 0; i < n; ++i) in.set({i}, random.uniform(function.low, function.high));
      for (size_t i = 0; i < std::size(special); ++i) in.set({static_cast<int64_t>(i * 131)}, special[i]);
      if (!CHECK_EQ(run_unary(function.kernel, d, out, in), ATALLA_OK)) continue;
      int wrong = 0;
      double first = 0;
      for (int64_t i = 0; i < n; ++i) {
        double expected = function.f(in.get({i}));
        if (d == ATALLA_F32) expected = static_cast<float>(expected);
        // 8 ulp: the functions are within 4, formulas made of them within twice that.
        if (!close(out.get({i}), expected, d == ATALLA_F32 ? 1e-6 : 1.8e-15) && wrong++ == 0) first = in.get({i});
      }
      check::note(wrong == 0, __FILE__, __LINE__,
                  std::string(function.kernel) + " " + dtype_name(d) + ": " + std::to_string(wrong) +
                      " wrong, first at " + std::to_string(first));
    }
  }
}

// Of every bfloat16: the float32 result, rounded, whether the loop converts in registers or whole blocks are converted.
void test_bfloat16() {
  constexpr int64_t n = 65536;
  Tensor in(ATALLA_BF16, {256, 256}), transposed(ATALLA_BF16, {256, 256}, {0, 1}), wide(ATALLA_F32, {256, 256});
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    std::memcpy(in.bytes.data() + 2 * i, &bits, 2);
  }
  in.each([&](const Index& i) { transposed.set(i, in.get(i)), wide.set(i, in.get(i)); });
  for (const Function& function : kFunctions) {
    Tensor result(ATALLA_F32, {256, 256});
    CHECK_EQ(run_unary(function.kernel, ATALLA_F32, result, wide), ATALLA_OK);
    for (Tensor* source : {&in, &transposed}) {
      Tensor out(ATALLA_BF16, {256, 256}), expected(ATALLA_BF16, {256, 256});
      CHECK_EQ(run_unary(function.kernel, ATALLA_BF16, out, *source), ATALLA_OK);
      int wrong = 0;
      out.each([&](const Index& i) {
        expected.set(i, result.get(i));
        const double got = out.get(i), want = expected.get(i);
        wrong += !((got == want && std::signbit(got) == std::signbit(want)) || (std::isnan(got) && std::isnan(want)));
      });
      check::note(wrong == 0, __FILE__, __LINE__,
                  std::string(function.kernel) + " of bfloat16: " + std::to_string(wrong) + " wrong");
    }
  }
}

// The same bits wherever an element stands, on one thread or two, in place or not.
void test_position() {
  constexpr int64_t n = 100003;
  for (const Function& function : kFunctions) {
    Tensor in(ATALLA_F32, {n}), out(ATALLA_F32, {n}), again(ATALLA_F32, {n});
    Random random;
    for (int64_t i = 0; i < n; ++i) in.set({i}, random.uniform(function.low, function.high));
    set_threads(1);
    run_unary(function.kernel, ATALLA_F32, out, in);
    set_threads(2);
    run_unary(function.kernel, ATALLA_F32, again, in);
    CHECK(out.bytes == again.bytes);
    for (int64_t start : {1, 5, 17}) {
      const int64_t m = 1003;
      Tensor part(ATALLA_F32, {m}), result(ATALLA_F32, {m});
      std::memcpy(part.bytes.data(), in.bytes.data() + start * 4, m * 4);
      run_unary(function.kernel, ATALLA_F32, result, part);
      CHECK(std::memcmp(result.bytes.data(), out.bytes.data() + start * 4, m * 4) == 0);
    }
    Tensor place = in;
    run_unary(function.kernel, ATALLA_F32, place, place, 1);
    CHECK(std::memcmp(place.bytes.data(), out.bytes.data(), n * 4) == 0);
  }
}

void test_immediate_input() {
  Tensor in(ATALLA_F32, {2000}), out = in, three(ATALLA_I64, {1});
  in.each([&](const Index& i) { in.set(i, static_cast<double>(i[0])); });
  three.set({0}, 3), three.immediate = true;
  if (!run_binary("pointwise.mul", ATALLA_F32, out, in, three)) return;
  int wrong = 0;
  out.each([&](const Index& i) { wrong += out.get(i) != 3.0 * static_cast<double>(i[0]); });
  CHECK_EQ(wrong, 0);
}

// Optional scalars, and exponents that have a loop of their own.
void test_scalars() {
  Tensor in(ATALLA_F32, {50}), out(ATALLA_F32, {50});
  Random random;
  random.fill(in);
  for (int present = 0; present < 4; ++present) {
    atalla_launch_desc desc{};
    desc.n_outputs = 1;
    desc.compute_dtype = ATALLA_F32;
    desc.fparams[0] = -0.25;
    desc.fparams[1] = 0.5;
    desc.iparams[11] = present;
    CHECK_EQ(run_kernel("pointwise.clamp", desc, {&out, &in}), ATALLA_OK);
    for (int64_t i = 0; i < 50; ++i) {
      double expected = in.get({i});
      if (present & 1) expected = std::max(expected, -0.25);
      if (present & 2) expected = std::min(expected, 0.5);
      CHECK_EQ(out.get({i}), expected);
    }
  }
  for (double exponent : {0.0, 1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 2.5, -3.0}) {
    atalla_launch_desc desc{};
    desc.n_outputs = 1;
    desc.compute_dtype = ATALLA_F32;
    desc.fparams[0] = exponent;
    CHECK_EQ(run_kernel("pointwise.pow_tensor_scalar", desc, {&out, &in}), ATALLA_OK);
    for (int64_t i = 0; i < 50; ++i) CHECK(close(out.get({i}), std::pow(in.get({i}), exponent), 1e-6));
  }
}

}  // namespace

int main() {
  test_arithmetic();
  test_division();
  test_conversion();
  test_functions();
  test_bfloat16();
  test_position();
  test_immediate_input();
  test_scalars();
  return check_report();
}
