// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `gemm` against a naive product in double precision (in wrapping integers for integer dtypes).
#define ATALLA_TEST_TABLES isa::gemm_kernels()
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

int passed = 0, failed = 0;

struct Case {
  atalla_dtype dtype = ATALLA_F32;
  int64_t b = 1, m = 1, n = 1, k = 1;
  int layout_a = 0, layout_b = 0,
      layout_out = 0;  // 0 row-major, 1 column-major, 2 row-major with gaps, 3 batch stride 0
  int layout_c = -1;   // -1 absent, 0 full, 1 row vector, 2 column vector, 3 one value
  double alpha = 1, beta = 0;
  int activation = 0;
  bool c_is_out = false;
};

Tensor make(atalla_dtype dtype, int64_t b, int64_t r, int64_t c, int layout) {
  switch (layout) {
    case 1:
      return Tensor(dtype, {b, r, c}, {0, 2, 1});
    case 2:
      return Tensor(dtype, {b, r, c}, {}, 3);
    case 3:
      return Tensor(dtype, {b, r, c}, {}, 1, 1);
    default:
      return Tensor(dtype, {b, r, c});
  }
}

double activate(double x, int activation) {
  switch (activation) {
    case 1:
      return x < 0 ? 0 : x;
    case 2:
      return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
    case 3:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case 4:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

int64_t wrap(uint64_t x, atalla_dtype dtype) {
  switch (dtype) {
    case ATALLA_BOOL:
      return x != 0;
    case ATALLA_U8:
      return static_cast<uint8_t>(x);
    case ATALLA_I8:
      return static_cast<int8_t>(x);
    case ATALLA_I16:
      return static_cast<int16_t>(x);
    case ATALLA_I32:
      return static_cast<int32_t>(x);
    default:
      return static_cast<int64_t>(x);
  }
}

double unit_roundoff(atalla_dtype dtype) {
  switch (dtype) {
    case ATALLA_F16:
      return 0x1p-11;
    case ATALLA_BF16:
      return 0x1p-8;
    case ATALLA_F32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

void report(bool ok, const Case& t, const char* what, const std::string& detail) {
  ok ? ++passed : ++failed;
  if (!ok && failed < 30) {
    std::printf("FAIL %s: %s b=%lld m=%lld n=%lld k=%lld layouts %d %d %d c=%d alpha=%g beta=%g act=%d alias=%d: %s\n",
                what, dtype_name(t.dtype), (long long)t.b, (long long)t.m, (long long)t.n, (long long)t.k, t.layout_a,
                t.layout_b, t.layout_out, t.layout_c, t.alpha, t.beta, t.activation, int{t.c_is_out}, detail.c_str());
  }
}

void check_case(const Case& t, Random& random) {
  const bool integer = t.dtype <= ATALLA_I64 || t.dtype == ATALLA_BOOL;
  Tensor a = make(t.dtype, t.b, t.m, t.k, t.layout_a), b = make(t.dtype, t.b, t.k, t.n, t.layout_b);
  Tensor out = make(t.dtype, t.b, t.m, t.n, t.layout_out), c;
  random.fill(a);
  random.fill(b);
  if (t.c_is_out) {
    random.fill(out);
    c = out;
  } else if (t.layout_c >= 0) {
    const uint32_t broadcast[] = {0, 3, 5, 7};
    c = Tensor(t.dtype, {t.b, t.m, t.n}, {}, 1, broadcast[t.layout_c]);
    random.fill(c);
  }
  const bool has_c = c.present;
  if (has_c && t.beta == 0 && !integer && t.b * t.m * t.n > 0) c.set({0, 0, 0}, NAN);
  const Tensor c_before = c;
  const std::vector<uint8_t> out_before = out.bytes;

  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = t.dtype;
  desc.fparams[0] = t.alpha, desc.fparams[1] = t.beta;
  desc.iparams[0] = static_cast<int64_t>(t.alpha), desc.iparams[1] = static_cast<int64_t>(t.beta);
  desc.iparams[2] = t.activation;
  std::vector<Tensor*> operands = {&out, &a, &b};
  if (has_c) operands.push_back(&c);
  set_threads(2);
  const atalla_status status = run_kernel("gemm", desc, operands, t.c_is_out ? 3 : -1);
  if (status != ATALLA_OK) return report(false, t, "status", std::to_string(status) + " " + last_error());

  // Row-major copies, so that the reference below does not spend its time on indexing.
  std::vector<double> a_values, b_values;
  std::vector<int64_t> a_integers, b_integers;
  auto flatten = [&](const Tensor& x, std::vector<double>& values, std::vector<int64_t>& integers) {
    x.each([&](const std::vector<int64_t>& i) {
      integer ? integers.push_back(x.get_integer(i)) : values.push_back(x.get(i));
    });
  };
  flatten(a, a_values, a_integers);
  flatten(b, b_values, b_integers);

  std::string detail;
  std::vector<bool> written(out.bytes.size() / item_size(t.dtype), false);
  out.each([&](const std::vector<int64_t>& i) {
    written[static_cast<size_t>(out.offset(i))] = true;
    if (!detail.empty()) return;
    double sum = 0, magnitude = 0;
    uint64_t wrapped = 0;
    bool any = false;
    for (int64_t p = 0; p < t.k; ++p) {
      const size_t ia = static_cast<size_t>((i[0] * t.m + i[1]) * t.k + p);
      const size_t ib = static_cast<size_t>((i[0] * t.k + p) * t.n + i[2]);
      if (integer) {
        const int64_t x = a_integers[ia], y = b_integers[ib];
        wrapped += static_cast<uint64_t>(x) * static_cast<uint64_t>(y);
        any = any || (x != 0 && y != 0);
      } else {
        const double x = a_values[ia] * b_values[ib];
        sum += x;
        magnitude += std::fabs(x);
      }
    }
    if (integer) {
      wrapped *= static_cast<uint64_t>(static_cast<int64_t>(t.alpha));
      if (has_c) wrapped += static_cast<uint64_t>(static_cast<int64_t>(t.beta) * c_before.get_integer(i));
      if (t.dtype == ATALLA_BOOL) {
        wrapped = (t.alpha != 0 && any) || (has_c && t.beta != 0 && c_before.get_integer(i) != 0);
      }
      int64_t want = wrap(wrapped, t.dtype);
      if (t.activation == 1 && want < 0) want = 0;
      const int64_t got = out.get_integer(i);
      if (got != want) detail = "got " + std::to_string(got) + ", expected " + std::to_string(want);
      return;
    }
    sum *= t.alpha, magnitude *= std::fabs(t.alpha);
    if (has_c && t.beta != 0) {
      sum += t.beta * c_before.get(i);
      magnitude += std::fabs(t.beta * c_before.get(i));
    }
    const double want = activate(sum, t.activation), got = out.get(i);
    const double accumulator = unit_roundoff(t.dtype == ATALLA_F64 ? ATALLA_F64 : ATALLA_F32);
    const double bound = 1.2 * magnitude * accumulator * (8 + static_cast<double>(t.k)) +
                         1.01 * unit_roundoff(t.dtype) * std::fabs(want) + (t.dtype == ATALLA_F16 ? 0x1p-25 : 0) +
                         (t.activation > 1 ? 8 * accumulator : 0);
    if (!(std::fabs(got - want) <= bound)) {
      detail = "at " + std::to_string(i[0]) + "," + std::to_string(i[1]) + "," + std::to_string(i[2]) + " got " +
               std::to_string(got) + ", expected " + std::to_string(want) + " within " + std::to_string(bound);
    }
  });
  report(detail.empty(), t, "values", detail);

  bool untouched = true;
  for (size_t e = 0; e < written.size(); ++e) {
    if (written[e]) continue;
    const size_t w = item_size(t.dtype);
    untouched = untouched && std::memcmp(out.bytes.data() + e * w, out_before.data() + e * w, w) == 0;
  }
  report(untouched, t, "bytes outside of the output", "changed");

  if (!t.c_is_out) {
    Tensor serial = out;
    operands[0] = &serial;
    set_threads(1);
    run_kernel("gemm", desc, operands);
    bool same = true;
    out.each([&](const std::vector<int64_t>& i) {
      const size_t o = static_cast<size_t>(out.offset(i)) * item_size(t.dtype);
      same = same && std::memcmp(out.bytes.data() + o, serial.bytes.data() + o, item_size(t.dtype)) == 0;
    });
    report(same, t, "one thread", "results differ from two threads");
  }
}

void check_error(const char* what, atalla_status want, atalla_launch_desc desc, std::vector<Tensor*> operands) {
  desc.n_outputs = 1;
  const atalla_status got = run_kernel("gemm", desc, operands);
  const bool ok = got == want && !last_error().empty();
  ok ? ++passed : ++failed;
  if (!ok) std::printf("FAIL %s: status %d, expected %d (%s)\n", what, got, want, last_error().c_str());
}

void check_errors() {
  Tensor out(ATALLA_F32, {1, 4, 5}), a(ATALLA_F32, {1, 4, 3}), b(ATALLA_F32, {1, 3, 5}), bad(ATALLA_F32, {1, 2, 5});
  Tensor flat(ATALLA_F32, {4, 3}), complex(ATALLA_C64, {1, 4, 3});
  atalla_launch_desc desc{};
  desc.compute_dtype = ATALLA_F32;
  desc.fparams[0] = 1;
  check_error("wrong inner size", ATALLA_ERR_ARGUMENT, desc, {&out, &a, &bad});
  check_error("two dimensions", ATALLA_ERR_ARGUMENT, desc, {&out, &flat, &b});
  check_error("operand count", ATALLA_ERR_ARGUMENT, desc, {&out, &a});
  check_error("complex operand", ATALLA_ERR_UNSUPPORTED, desc, {&out, &complex, &b});
  desc.iparams[2] = 7;
  check_error("unknown activation", ATALLA_ERR_ARGUMENT, desc, {&out, &a, &b});
  desc.iparams[2] = 0;
  desc.compute_dtype = ATALLA_C64;
  check_error("complex", ATALLA_ERR_UNSUPPORTED, desc, {&out, &a, &b});
}

// NaN and infinities of A and B reach exactly the results that they touch.
void check_special_values() {
  for (int64_t n : {1, 5, 40, 200}) {
    const int64_t m = 17, k = 33;
    Tensor a(ATALLA_F32, {1, m, k}), b(ATALLA_F32, {1, k, n}), out(ATALLA_F32, {1, m, n});
    a.each([&](const std::vector<int64_t>& i) { a.set(i, 1); });
    b.each([&](const std::vector<int64_t>& i) { b.set(i, 1); });
    a.set({0, 3, 7}, NAN);
    a.set({0, 16, 32}, INFINITY);
    atalla_launch_desc desc{};
    desc.n_outputs = 1;
    desc.compute_dtype = ATALLA_F32;
    desc.fparams[0] = 1;
    bool ok = run_kernel("gemm", desc, {&out, &a, &b}) == ATALLA_OK;
    out.each([&](const std::vector<int64_t>& i) {
      const double x = out.get(i);
      ok = ok && (i[1] == 3 ? std::isnan(x) : i[1] == 16 ? x == INFINITY : x == static_cast<double>(k));
    });
    ok ? ++passed : ++failed;
    if (!ok) std::printf("FAIL special values, n=%lld\n", (long long)n);
  }
}

// Narrow operands, whose pairs of k may go through instructions of the host: bit for bit the product of the same values
// in F32, or in I32. Magnitudes at both limits of what those instructions add exactly, sums that cancel, and what is no
// number.
void check_narrow_operands(Random& random) {
  const int64_t sizes[][3] = {{33, 65, 70}, {5, 40, 513}, {40, 5, 7}, {130, 200, 1030}, {64, 64, 64}, {16, 300, 33}};
  for (const auto& size : sizes) {
    for (int round = 0; round < 36; ++round) {
      const int64_t m = size[0], n = size[1], k = size[2];
      const bool bytes = round % 6 == 5;
      const atalla_dtype narrow = !bytes ? ATALLA_BF16 : round % 4 == 0 ? ATALLA_U8 : ATALLA_I8;
      const atalla_dtype wide = bytes ? ATALLA_I32 : ATALLA_F32;
      const std::vector<int> turned = {0, 2, 1};
      const bool turn_a = round % 3 == 1, turn_b = round % 4 >= 2;
      Tensor a(narrow, {1, m, k}, turn_a ? turned : std::vector<int>{}),
          b(narrow, {1, k, n}, turn_b ? turned : std::vector<int>{});
      Tensor wide_a(wide, {1, m, k}), wide_b(wide, {1, k, n}), out(wide, {1, m, n}), expected(wide, {1, m, n});
      const int exponents[] = {0, -55, -60, -70, 55};
      const int base = exponents[round % 5];
      const auto value = [&](const std::vector<int64_t>& i) -> double {
        if (bytes)
          return static_cast<double>(random.below(narrow == ATALLA_U8 ? 256 : 255)) - (narrow == ATALLA_U8 ? 0 : 128);
        const double x =
            std::ldexp(1 + static_cast<double>(random.below(128)) / 128, base + static_cast<int>(random.below(4)));
        if (random.below(6) == 0) return random.below(2) == 0 ? 0.0 : -0.0;
        if (round >= 30 && i[1] == 3 && i[2] == 4) return round % 2 == 0 ? NAN : INFINITY;
        return random.below(2) == 0 ? x : -x;
      };
      a.each([&](const std::vector<int64_t>& i) {  // the second half repeats the first
        const std::vector<int64_t> same = {0, i[1], i[2] - k / 2};
        a.set(i, i[2] >= k / 2 && same[2] < k / 2 ? a.get(same) : value(i));
      });
      b.each([&](const std::vector<int64_t>& i) {  // and here with the other sign: what is left of sums is small
        const std::vector<int64_t> same = {0, i[1] - k / 2, i[2]};
        b.set(i, !bytes && i[1] >= k / 2 && same[1] < k / 2 && random.below(8) != 0 ? -b.get(same) : value(i));
      });
      a.each([&](const std::vector<int64_t>& i) { wide_a.set(i, a.get(i)); });
      b.each([&](const std::vector<int64_t>& i) { wide_b.set(i, b.get(i)); });
      atalla_launch_desc desc{};
      desc.n_outputs = 1, desc.compute_dtype = wide, desc.fparams[0] = 1;
      bool ok = run_kernel("gemm", desc, {&out, &a, &b}) == ATALLA_OK &&
                run_kernel("gemm", desc, {&expected, &wide_a, &wide_b}) == ATALLA_OK;
      out.each([&](const std::vector<int64_t>& i) {
        const double x = out.get(i), y = expected.get(i);
        ok = ok && (std::isnan(y) ? std::isnan(x) : x == y && std::signbit(x) == std::signbit(y));
      });
      ok ? ++passed : ++failed;
      if (!ok)
        std::printf("FAIL narrow operands %s, %lld x %lld x %lld, round %d: %s\n", dtype_name(narrow), (long long)m,
                    (long long)k, (long long)n, round, last_error().c_str());
    }
  }
}

}  // namespace

int main() {
  Random random;
  const atalla_dtype dtypes[] = {ATALLA_F32, ATALLA_F64, ATALLA_F16, ATALLA_BF16, ATALLA_U8,
                                 ATALLA_I8,  ATALLA_I16, ATALLA_I32, ATALLA_I64,  ATALLA_BOOL};
  const int64_t sizes[] = {1, 2, 3, 5, 8, 13, 16, 17, 29, 32, 33, 45, 64, 70};
  for (atalla_dtype dtype : dtypes) {
    const bool integer = dtype <= ATALLA_I64 || dtype == ATALLA_BOOL;
    for (int i = 0; i < 250; ++i) {
      Case t;
      t.dtype = dtype;
      t.b = i % 5 == 0 ? 1 + random.below(4) : 1;
      t.m = sizes[random.below(14)], t.n = sizes[random.below(14)], t.k = sizes[random.below(14)];
      if (i % 7 == 0) t.m = 1;
      if (i % 11 == 0) t.n = 1;
      if (i % 13 == 0) t.k = 0;
      if (i % 17 == 0) t.k = 331 + random.below(800);
      if (i % 61 == 0) t.m = 0;
      if (i % 71 == 0) t.b = 0;
      t.layout_a = static_cast<int>(random.below(4)), t.layout_b = static_cast<int>(random.below(4));
      t.layout_out = static_cast<int>(random.below(3));
      t.layout_c = static_cast<int>(random.below(5)) - 1;
      if (random.below(2) == 0) t.alpha = integer ? static_cast<double>(random.below(9) - 4) : random.uniform(-2, 2);
      if (t.layout_c >= 0 && random.below(3) > 0) {
        t.beta = random.below(2) == 0 ? 1 : integer ? static_cast<double>(random.below(9) - 4) : random.uniform(-2, 2);
      }
      t.activation = static_cast<int>(random.below(integer ? 2 : 5));
      t.c_is_out = i % 6 == 1;
      check_case(t, random);
    }
  }
  // Sizes at the edges of the cache blocks, with k in several chunks.
  const int64_t large[][3] = {{450, 40, 700}, {40, 1100, 330}, {1, 3000, 1000}, {1000, 1, 700}, {130, 1030, 641}};
  for (const auto& s : large) {
    for (atalla_dtype dtype : {ATALLA_F32, ATALLA_BF16}) {
      for (int layout = 0; layout < 3; ++layout) {
        Case t;
        t.dtype = dtype, t.m = s[0], t.n = s[1], t.k = s[2];
        t.layout_a = layout, t.layout_b = (layout + 1) % 3, t.layout_out = (layout + 2) % 3;
        t.layout_c = layout, t.beta = 0.5, t.activation = layout + 1;
        check_case(t, random);
      }
    }
  }
  check_special_values();
  check_narrow_operands(random);
  check_errors();
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
