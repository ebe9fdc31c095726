// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `gemm_quantized` against products in double precision.
#define ATALLA_TEST_TABLES isa::gemm_quantized_kernels()
#include "kernel_parameters.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

int passed = 0, failed = 0;

void report(bool ok, const std::string& what) {
  ok ? ++passed : ++failed;
  if (!ok) std::printf("FAIL %s (%s)\n", what.c_str(), last_error().c_str());
}

enum Encoding : int64_t { kInt8, kInt4, kInt4Plain, kE4m3fn, kE5m2 };
constexpr const char* kNames[] = {"int8", "int4", "int4_plain", "float8_e4m3fn", "float8_e5m2"};

struct Operands {
  Tensor out, a, b, scales, zeros;
  Encoding encoding;
};

// `layout` bit 0: a column-major, bit 1: out, bit 2: scales and zeros [n, g].
Operands make(atalla_dtype dtype, Encoding encoding, bool zeros, int64_t m, int64_t n, int64_t k, int64_t groups,
              int layout) {
  const bool four_bits = encoding == kInt4 || encoding == kInt4Plain;
  auto order = [&](int bit) { return layout & bit ? std::vector<int>{1, 0} : std::vector<int>{}; };
  return {Tensor(dtype, {m, n}, order(2)),
          Tensor(dtype, {m, k}, order(1)),
          Tensor(encoding == kInt8 ? ATALLA_I8 : ATALLA_U8, {n, four_bits ? k / 2 : k}),
          Tensor(ATALLA_F32, {groups, n}, order(4)),
          zeros ? Tensor(dtype, {groups, n}, order(4)) : Tensor(),
          encoding};
}

atalla_status run(Operands& o, atalla_dtype dtype) {
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = dtype;
  atalla::GemmQuantizedParameters{.encoding = static_cast<atalla::WeightEncoding>(o.encoding)}.write(&desc);
  return run_kernel("gemm_quantized", desc, {&o.out, &o.a, &o.b, &o.scales, &o.zeros});
}

// A float of `fraction` bits behind a sign and an exponent. e4m3fn has no infinities: its last exponent has numbers.
double float8(int bits, int fraction, int bias) {
  const int exponent = (bits & 127) >> fraction, rest = bits & ((1 << fraction) - 1);
  const double value = exponent == 0 ? std::ldexp(rest, 1 - bias - fraction)
                                     : std::ldexp((1 << fraction) + rest, exponent - bias - fraction);
  return bits >= 128 ? -value : value;
}

double weight(const Operands& o, int64_t j, int64_t p) {
  const bool even = p % 2 == 0;
  switch (o.encoding) {
    case kInt8:
      return o.b.get({j, p});
    case kE4m3fn:
      return float8(static_cast<int>(o.b.get({j, p})), 3, 7);
    case kE5m2:
      return float8(static_cast<int>(o.b.get({j, p})), 2, 15);
    default:
      break;
  }
  const int pair = static_cast<int>(o.b.get({j, p / 2}));
  if (o.encoding == kInt4) return (even ? pair / 16 : pair % 16) - 8;
  const int four = even ? pair % 16 : pair / 16;
  return four < 8 ? four : four - 16;
}

// A byte for each place; of the floats, none that is no number or that leaves the range of F16 in sums.
double byte(Encoding encoding, int64_t j, int64_t p) {
  const int64_t value = (j * 37 + p * 101) % 256;
  if (encoding == kInt8) return static_cast<double>(value - 128);
  if (encoding == kE4m3fn && value % 128 == 127) return 1;
  if (encoding == kE5m2) return static_cast<double>(value % 128 >= 80 ? value - 48 : value);  // at most 14
  return static_cast<double>(value);
}

void check(atalla_dtype dtype, Encoding encoding, bool zeros, int64_t m, int64_t n, int64_t k, int64_t groups,
           int layout, Random& random) {
  Operands o = make(dtype, encoding, zeros, m, n, k, groups, layout);
  random.fill(o.a);
  random.fill(o.scales);
  if (zeros) random.fill(o.zeros);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t p = 0; p < o.b.sizes[1]; ++p) o.b.set({j, p}, byte(encoding, j, p));
  if (run(o, dtype) != ATALLA_OK) return report(false, "status");
  const double eps = dtype == ATALLA_F32 ? 1e-5 : dtype == ATALLA_BF16 ? 1e-2 : 1e-3;
  bool ok = true;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 1;
      for (int64_t p = 0; p < k; ++p) {
        const int64_t g = p / (k / groups);
        const double term =
            o.a.get({i, p}) * (weight(o, j, p) * o.scales.get({g, j}) + (zeros ? o.zeros.get({g, j}) : 0.0));
        sum += term, size += std::fabs(term);
      }
      ok = ok && std::fabs(o.out.get({i, j}) - sum) <= eps * size;
    }
  }
  report(ok, std::string(kNames[encoding]) + ", dtype " + dtype_name(dtype) + ", layout " + std::to_string(layout) +
                 ", m " + std::to_string(m));
  const std::vector<uint8_t> first = o.out.bytes;
  set_threads(1);
  report(run(o, dtype) == ATALLA_OK && o.out.bytes == first, "the same bits on one thread");
  set_threads(2);
}

void check_error(const char* text, atalla_status status, Operands o) {
  report(run(o, ATALLA_F32) == status && last_error().find(text) != std::string::npos, std::string("refuses: ") + text);
}

void check_errors() {
  const Operands good = make(ATALLA_F32, kInt4, true, 3, 4, 8, 2, 0);
  Operands o = good;
  o.b = Tensor(ATALLA_U8, {4, 8});
  check_error("operand 2 (b) is [4, 8], expected size 4 in dimension 1: k / 2 of [n, k / 2]", ATALLA_ERR_ARGUMENT, o);
  o = good;
  o.scales = o.zeros = Tensor(ATALLA_F32, {3, 4});
  check_error("k is 8, expected a multiple of 3 groups and of 2", ATALLA_ERR_ARGUMENT, o);
  o = good;
  o.zeros = Tensor(ATALLA_F32, {2, 5});
  check_error("operand 4 (zeros) is [2, 5], expected size 4 in dimension 1: n of [g, n]", ATALLA_ERR_ARGUMENT, o);
  o = good;
  o.b = Tensor(ATALLA_I32, {4, 4});
  check_error("operand 2 of dtype int32", ATALLA_ERR_UNSUPPORTED, o);
  o = good;
  o.encoding = kInt8;
  o.b = Tensor(ATALLA_U8, {4, 8});
  check_error("b is uint8, expected int8 for its encoding", ATALLA_ERR_UNSUPPORTED, o);
  for (const int64_t code : {-1, 5}) {
    o = good;
    o.encoding = static_cast<Encoding>(code);
    check_error("expected 0 to 4", ATALLA_ERR_ARGUMENT, o);
  }
}

}  // namespace

int main() {
  Random random;
  for (atalla_dtype dtype : {ATALLA_F32, ATALLA_F16, ATALLA_BF16}) {
    for (int layout = 0; layout < 8; ++layout) {
      for (Encoding encoding : {kInt8, kInt4, kInt4Plain, kE4m3fn, kE5m2}) {
        const bool zeros = encoding == kInt4 || encoding == kInt4Plain;
        check(dtype, encoding, zeros, 1, 37, 48, 3, layout, random);
        check(dtype, encoding, !zeros, 21, 70, 64, 1, layout, random);
      }
    }
    check(dtype, kInt4, true, 5, 33, 2080, 65, 0, random);
    check(dtype, kInt8, false, 130, 65, 600, 1, 0, random);
  }
  check_errors();
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
