// SPDX-License-Identifier: BSD-3-Clause
//
// fft.c2c, fft.r2c and fft.c2r against the definition in double.
#include <complex>
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;
using Number = std::complex<double>;

bool wide(const Tensor& t) { return t.dtype == ATALLA_C128 || t.dtype == ATALLA_F64; }
bool is_complex(const Tensor& t) { return t.dtype == ATALLA_C64 || t.dtype == ATALLA_C128; }

// Complex tensors, and real ones seen as complex.
Number get(const Tensor& t, const Index& i) {
  if (!is_complex(t)) return t.get(i);
  const int64_t at = 2 * t.offset(i);
  if (wide(t)) {
    double v[2];
    std::memcpy(v, t.bytes.data() + at * 8, sizeof v);
    return {v[0], v[1]};
  }
  float v[2];
  std::memcpy(v, t.bytes.data() + at * 4, sizeof v);
  return {v[0], v[1]};
}
void set(Tensor& t, const Index& i, Number x) {
  if (!is_complex(t)) return t.set(i, x.real());
  const int64_t at = 2 * t.offset(i);
  const double v[2] = {x.real(), x.imag()};
  const float narrow[2] = {static_cast<float>(x.real()), static_cast<float>(x.imag())};
  if (wide(t)) std::memcpy(t.bytes.data() + at * 8, v, sizeof v);
  else std::memcpy(t.bytes.data() + at * 4, narrow, sizeof narrow);
}
void fill(Random& random, Tensor& t) {
  t.each([&](const Index& i) { set(t, i, {random.uniform(-1, 1), random.uniform(-1, 1)}); });
}

atalla_status launch(const char* kernel, Tensor& out, Tensor& in, int64_t dim, bool forward, double factor,
                     int alias = -1) {
  atalla_launch_desc d{};
  d.n_outputs = 1;
  d.compute_dtype = wide(in) ? ATALLA_C128 : ATALLA_C64;
  d.iparams[0] = dim;
  d.iparams[1] = forward;
  d.fparams[0] = factor;
  return run_kernel(kernel, d, {&out, &in}, alias);
}

// Largest difference from the definition, over the largest value. `hermitian`: `in` is half of a sequence of length n.
double error(const Tensor& out, const Tensor& in, int64_t dim, bool forward, double factor, int64_t n, bool hermitian) {
  double worst = 0, largest = 1e-300;
  std::vector<Number> x(n), root(n);
  for (int64_t k = 0; k < n; ++k) root[k] = std::polar(1.0, (forward ? -2 : 2) * M_PI * double(k) / double(n));
  out.each([&](const Index& index) {
    if (index[dim] != 0) return;
    Index i = index;
    for (int64_t k = 0; k < n; ++k) {
      i[dim] = hermitian && k > n / 2 ? n - k : k;
      x[k] = get(in, i);
      if (hermitian && (k == 0 || 2 * k == n)) x[k] = x[k].real();
      if (hermitian && k > n / 2) x[k] = std::conj(x[k]);
    }
    for (int64_t k = 0; k < out.sizes[dim]; ++k) {
      Number sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += x[j] * root[j * k % n];
      sum *= factor;
      i[dim] = k;
      largest = std::max(largest, std::abs(sum));
      worst = std::max(worst, std::abs(get(out, i) - (is_complex(out) ? sum : sum.real())));
    }
  });
  return worst / largest;
}

void check(double got, bool is_wide, const char* what, int64_t n) {
  const double limit = is_wide ? 5e-15 : 1e-6;
  if (!CHECK(got < limit)) std::fprintf(stderr, "%s of length %d: error %g\n", what, int(n), got);
}

void lengths() {
  Random random;
  std::vector<int64_t> all;
  for (int64_t n = 1; n < 48; ++n) all.push_back(n);
  for (int64_t n : {60, 64, 74, 97, 100, 128, 202, 243, 256, 331, 1000}) all.push_back(n);
  for (const int64_t n : all) {
    for (const bool d : {false, true}) {
      const atalla_dtype complex = d ? ATALLA_C128 : ATALLA_C64, real = d ? ATALLA_F64 : ATALLA_F32;
      Tensor x(complex, {3, n}), y = x, r(real, {3, n}), half(complex, {3, n / 2 + 1}), whole = x;
      fill(random, x);
      fill(random, r);
      fill(random, half);
      for (const bool forward : {false, true}) {
        CHECK_EQ(launch("fft.c2c", y, x, 1, forward, 0.5), ATALLA_OK);
        check(error(y, x, 1, forward, 0.5, n, false), d, "c2c", n);
      }
      Tensor h = half;
      CHECK_EQ(launch("fft.r2c", h, r, 1, true, 2), ATALLA_OK);
      check(error(h, r, 1, true, 2, n, false), d, "r2c", n);
      CHECK_EQ(launch("fft.r2c", whole, r, 1, true, 1), ATALLA_OK);
      check(error(whole, r, 1, true, 1, n, false), d, "two-sided r2c", n);
      CHECK_EQ(launch("fft.c2r", r, half, 1, false, 1), ATALLA_OK);
      check(error(r, half, 1, false, 1, n, true), d, "c2r", n);
    }
  }
}

}  // namespace

int main() {
  lengths();
  return check_report();
}
