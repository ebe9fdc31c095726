// SPDX-License-Identifier: BSD-3-Clause
//
// Complex numbers on a grid of special values: pointwise kernels against <complex>.
#include <complex>
#include <limits>

#include "check.h"
#include "kernels/harness.h"

namespace {

using namespace kernel_test;
using Z = std::complex<double>;

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

Z get(const Tensor& t, int64_t i) {
  if (t.dtype == ATALLA_C128) {
    double parts[2];
    std::memcpy(parts, t.bytes.data() + i * 16, 16);
    return {parts[0], parts[1]};
  }
  float parts[2];
  std::memcpy(parts, t.bytes.data() + i * 8, 8);
  return {parts[0], parts[1]};
}

void set(Tensor& t, int64_t i, Z z) {
  const double wide[2] = {z.real(), z.imag()};
  const float narrow[2] = {static_cast<float>(z.real()), static_cast<float>(z.imag())};
  if (t.dtype == ATALLA_C128) std::memcpy(t.bytes.data() + i * 16, wide, 16);
  else std::memcpy(t.bytes.data() + i * 8, narrow, 8);
}

std::vector<Z> grid() {
  const double values[] = {0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 30.0, -30.0, 1e25, -1e-25, kInf, -kInf, kNan};
  std::vector<Z> found;
  for (double re : values) {
    for (double im : values) found.push_back({re, im});
  }
  return found;
}

Tensor of(atalla_dtype dtype, const std::vector<Z>& values) {
  Tensor t(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) set(t, static_cast<int64_t>(i), values[i]);
  return t;
}

// Equal, both NaN, or close; zeros by their sign.
bool same(double a, double b, double relative) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return a != 0 || std::signbit(a) == std::signbit(b);
  return std::fabs(a - b) <= relative * std::fabs(b);
}

double precision(atalla_dtype d) { return d == ATALLA_C128 ? 1e-15 : 1e-6; }

template <class T>
void unary(const char* kernel, atalla_dtype dtype, std::complex<T> (*f)(const std::complex<T>&)) {
  const std::vector<Z> values = grid();
  Tensor in = of(dtype, values), out = in;
  atalla_launch_desc desc{};
  desc.n_outputs = 1, desc.compute_dtype = dtype;
  CHECK_EQ(run_kernel(kernel, desc, {&out, &in}), ATALLA_OK);
  int wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const Z x = get(in, at), got = get(out, at);
    const Z expected(f(std::complex<T>(x)));
    wrong +=
        !same(got.real(), expected.real(), precision(dtype)) || !same(got.imag(), expected.imag(), precision(dtype));
  }
  check::note(wrong == 0, __FILE__, __LINE__, std::string(kernel) + ": " + std::to_string(wrong) + " wrong");
}

template <class T>
void all_unary(atalla_dtype d) {
  using C = std::complex<T>;
#define ATALLA_UNARY(name) unary<T>("pointwise." #name, d, [](const C& x) { return std::name(x); })
  ATALLA_UNARY(exp), ATALLA_UNARY(log), ATALLA_UNARY(sqrt), ATALLA_UNARY(sin), ATALLA_UNARY(cos), ATALLA_UNARY(tan);
  ATALLA_UNARY(asin), ATALLA_UNARY(acos), ATALLA_UNARY(atan), ATALLA_UNARY(sinh), ATALLA_UNARY(cosh);
  ATALLA_UNARY(tanh), ATALLA_UNARY(asinh), ATALLA_UNARY(acosh), ATALLA_UNARY(atanh);
#undef ATALLA_UNARY
  unary<T>("pointwise.neg", d, [](const C& x) { return -x; });
}

void small_arguments() {
  for (const double x : {1e-12, -1e-9, 3e-6}) {
    const std::vector<Z> values = {{x, 0}, {0, x}, {x, x}};
    Tensor in = of(ATALLA_C128, values), log1p = in, expm1 = in;
    atalla_launch_desc desc{};
    desc.n_outputs = 1, desc.compute_dtype = ATALLA_C128;
    CHECK_EQ(run_kernel("pointwise.log1p", desc, {&log1p, &in}), ATALLA_OK);
    CHECK_EQ(run_kernel("pointwise.expm1", desc, {&expm1, &in}), ATALLA_OK);
    for (int64_t i = 0; i < 3; ++i) {
      const Z z = values[static_cast<size_t>(i)];
      CHECK(std::abs(get(log1p, i) - (z - z * z / 2.0)) < 1e-15 * std::abs(z) + std::pow(std::abs(z), 3));
      CHECK(std::abs(get(expm1, i) - (z + z * z / 2.0)) < 1e-15 * std::abs(z) + std::pow(std::abs(z), 3));
    }
  }
}

void arithmetic(atalla_dtype d) {
  const std::vector<Z> values = grid();
  std::vector<Z> first, second;
  for (Z a : values) {
    for (Z b : values) first.push_back(a), second.push_back(b);
  }
  Tensor a = of(d, first), b = of(d, second), product = a, quotient = a, equal(ATALLA_BOOL, a.sizes);
  atalla_launch_desc desc{};
  desc.n_outputs = 1, desc.compute_dtype = d;
  CHECK_EQ(run_kernel("pointwise.mul", desc, {&product, &a, &b}), ATALLA_OK);
  CHECK_EQ(run_kernel("pointwise.div", desc, {&quotient, &a, &b}), ATALLA_OK);
  CHECK_EQ(run_kernel("pointwise.eq", desc, {&equal, &a, &b}), ATALLA_OK);
  const double largest = d == ATALLA_C128 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  for (int64_t i = 0; i < static_cast<int64_t>(first.size()); ++i) {
    const Z x = get(a, i), y = get(b, i), p = get(product, i), q = get(quotient, i);
    CHECK_EQ(equal.get({i}) != 0, x.real() == y.real() && x.imag() == y.imag());
    if (!std::isfinite(std::abs(x)) || !std::isfinite(std::abs(y))) continue;
    const double size = std::abs(x) * std::abs(y);
    if (size < largest / 4) CHECK(std::abs(p - x * y) <= 4 * precision(d) * size + 1e-37);
    if (std::abs(y) == 0) {
      CHECK(std::isnan(q.real()) == (x.real() == 0) && std::isnan(q.imag()) == (x.imag() == 0));
    } else {
      const double scale = std::ldexp(1.0, -std::ilogb(std::abs(y)));  // the reference shall not overflow
      const Z expected = x * scale / (y * scale);
      if (std::abs(expected) < largest / 4)
        CHECK(std::abs(q - expected) <= 8 * precision(d) * std::abs(expected) + 1e-37);
    }
  }
  // The product of a number and its conjugate is real, at every position.
  Tensor conjugate = of(d, first);
  for (int64_t i = 0; i < static_cast<int64_t>(first.size()); ++i) set(conjugate, i, std::conj(get(a, i)));
  CHECK_EQ(run_kernel("pointwise.mul", desc, {&product, &a, &conjugate}), ATALLA_OK);
  for (int64_t i = 0; i < static_cast<int64_t>(first.size()); ++i) {
    if (std::isfinite(get(product, i).real())) CHECK(get(product, i).imag() == 0);
  }
}

void real_results(atalla_dtype d) {
  const std::vector<Z> values = grid();
  const auto real = static_cast<atalla_dtype>(d == ATALLA_C128 ? ATALLA_F64 : ATALLA_F32);
  Tensor in = of(d, values), modulus(real, in.sizes), angle(real, in.sizes);
  atalla_launch_desc desc{};
  desc.n_outputs = 1, desc.compute_dtype = d;
  CHECK_EQ(run_kernel("pointwise.abs", desc, {&modulus, &in}), ATALLA_OK);
  CHECK_EQ(run_kernel("pointwise.angle", desc, {&angle, &in}), ATALLA_OK);
  for (int64_t i = 0; i < in.sizes[0]; ++i) {
    const Z x = get(in, i);
    CHECK(same(modulus.get({i}), std::hypot(x.real(), x.imag()), precision(d)));
    const double expected = d == ATALLA_C128 ? std::atan2(x.imag(), x.real())
                                             : std::atan2(static_cast<float>(x.imag()), static_cast<float>(x.real()));
    CHECK(same(angle.get({i}), expected, precision(d)));
  }
}

void scalars() {
  Tensor in = of(ATALLA_C128, {{1, 2}, {3, -1}}), out = in;
  atalla_launch_desc desc{};
  desc.n_outputs = 1, desc.compute_dtype = ATALLA_C128;
  desc.fparams[0] = 2, desc.fparams[6] = -1;  // alpha = 2 - i
  CHECK_EQ(run_kernel("pointwise.add", desc, {&out, &in, &in}), ATALLA_OK);
  CHECK(get(out, 0) == Z(1, 2) + Z(2, -1) * Z(1, 2));
  CHECK(get(out, 1) == Z(3, -1) + Z(2, -1) * Z(3, -1));
}

}  // namespace

int main() {
  all_unary<float>(ATALLA_C64);
  all_unary<double>(ATALLA_C128);
  small_arguments();
  scalars();
  for (const atalla_dtype d : {static_cast<atalla_dtype>(ATALLA_C64), static_cast<atalla_dtype>(ATALLA_C128)}) {
    arithmetic(d);
    real_results(d);
  }
  return check_report();
}
