// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `attention` against a naive softmax(scale q k' + mask) v in double precision.
#define ATALLA_TEST_TABLES isa::attention_kernels()
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

int passed = 0, failed = 0;

struct Case {
  atalla_dtype dtype = ATALLA_F32;
  int64_t b = 1, h = 1, hk = 1, l = 1, s = 1, e = 1, ev = 1;
  int layout = 0;  // 0 contiguous, 1 [b, l, h, e] in memory, 2 with gaps, 3 e slowest
  int mask = -1;   // -1 none, 0 full, 1 one row for all queries, 2 one value a query
  atalla_dtype mask_dtype = ATALLA_BOOL;
  bool causal = false, logsumexp = true;
};

Tensor make(atalla_dtype dtype, int64_t b, int64_t h, int64_t l, int64_t e, int layout) {
  switch (layout) {
    case 1:
      return Tensor(dtype, {b, h, l, e}, {0, 2, 1, 3});
    case 2:
      return Tensor(dtype, {b, h, l, e}, {}, 2);
    case 3:
      return Tensor(dtype, {b, h, l, e}, {0, 1, 3, 2});
    default:
      return Tensor(dtype, {b, h, l, e});
  }
}

void report(bool ok, const Case& t, const char* what, const std::string& detail) {
  ok ? ++passed : ++failed;
  if (!ok && failed < 30) {
    std::printf("FAIL %s: %s b=%lld h=%lld/%lld l=%lld s=%lld e=%lld ev=%lld layout=%d mask=%d %s causal=%d: %s\n",
                what, dtype_name(t.dtype), (long long)t.b, (long long)t.h, (long long)t.hk, (long long)t.l,
                (long long)t.s, (long long)t.e, (long long)t.ev, t.layout, t.mask, dtype_name(t.mask_dtype),
                int{t.causal}, detail.c_str());
  }
}

double tolerance(atalla_dtype dtype) {
  switch (dtype) {
    case ATALLA_F16:
      return 1e-3;
    case ATALLA_BF16:
      return 8e-3;
    case ATALLA_F32:
      return 4e-6;
    default:
      return 1e-13;
  }
}

void check_case(const Case& t, Random& random, double amplitude = 1) {
  Tensor q = make(t.dtype, t.b, t.h, t.l, t.e, t.layout), k = make(t.dtype, t.b, t.hk, t.s, t.e, t.layout);
  Tensor v = make(t.dtype, t.b, t.hk, t.s, t.ev, t.layout), out = make(t.dtype, t.b, t.h, t.l, t.ev, t.layout);
  Tensor mask, lse;
  random.fill(q), random.fill(k), random.fill(v);
  if (amplitude != 1) q.each([&](const std::vector<int64_t>& i) { q.set(i, amplitude * q.get(i)); });
  if (t.logsumexp) lse = Tensor(ATALLA_F32, {t.b, t.h, t.l});
  if (t.mask >= 0) {
    const uint32_t broadcast[] = {0, 0b0111, 0b1011};
    mask = Tensor(t.mask_dtype, {t.b, t.h, t.l, t.s}, {}, 1, broadcast[t.mask]);
    mask.each([&](const std::vector<int64_t>& i) {
      const int64_t kind = random.below(4);
      mask.set(i, t.mask_dtype == ATALLA_BOOL ? static_cast<double>(kind != 0)
                  : kind == 0                 ? -INFINITY
                                              : random.uniform(-1, 1));
    });
    if (t.mask == 0 && t.l > 1) {  // one query that sees nothing
      for (int64_t j = 0; j < t.s; ++j) mask.set({0, 0, 1, j}, t.mask_dtype == ATALLA_BOOL ? 0 : -INFINITY);
    }
  }
  atalla_launch_desc desc{};
  desc.n_outputs = 2;
  desc.compute_dtype = t.dtype;
  const double scale = t.e > 0 ? 1 / std::sqrt(static_cast<double>(t.e)) : 1;
  desc.fparams[0] = scale;
  desc.iparams[0] = t.causal;
  std::vector<Tensor*> operands = {&out, &lse, &q, &k, &v};
  if (mask.present) operands.push_back(&mask);
  set_threads(2);
  const atalla_status status = run_kernel("attention", desc, operands);
  if (status != ATALLA_OK) return report(false, t, "status", std::to_string(status) + " " + last_error());

  // Row-major copies, so that the reference below does not spend its time on indexing.
  auto flatten = [](const Tensor& x) {
    std::vector<double> values;
    x.each([&](const std::vector<int64_t>& i) { values.push_back(x.get(i)); });
    return values;
  };
  const std::vector<double> qs = flatten(q), ks = flatten(k), vs = flatten(v);

  std::string detail;
  std::vector<double> scores(static_cast<size_t>(t.s));
  for (int64_t ib = 0; ib < t.b; ++ib) {
    for (int64_t ih = 0; ih < t.h; ++ih) {
      const int64_t kh = ih / (t.h / t.hk);
      for (int64_t i = 0; i < t.l; ++i) {
        double maximum = -INFINITY, sum = 0;
        for (int64_t j = 0; j < t.s; ++j) {
          double x = 0;
          const size_t row = static_cast<size_t>(((ib * t.h + ih) * t.l + i) * t.e);
          const size_t key = static_cast<size_t>(((ib * t.hk + kh) * t.s + j) * t.e);
          for (size_t p = 0; p < static_cast<size_t>(t.e); ++p) x += qs[row + p] * ks[key + p];
          x *= scale;
          if (mask.present) {
            const double m = mask.get({ib, ih, i, j});
            x = t.mask_dtype == ATALLA_BOOL ? (m != 0 ? x : -INFINITY) : x + m;
          }
          if (t.causal && j > i) x = -INFINITY;
          scores[static_cast<size_t>(j)] = x;
          maximum = std::fmax(maximum, x);
        }
        const bool empty = maximum == -INFINITY;
        for (double& x : scores) sum += x = empty ? 0 : std::exp(x - maximum);
        for (int64_t c = 0; c < t.ev && detail.empty(); ++c) {
          double want = 0;
          for (int64_t j = 0; j < t.s; ++j) {
            want += scores[static_cast<size_t>(j)] * vs[static_cast<size_t>(((ib * t.hk + kh) * t.s + j) * t.ev + c)];
          }
          want = empty ? 0 : want / sum;
          const double got = out.get({ib, ih, i, c});
          if (!(std::fabs(got - want) <= tolerance(t.dtype) * amplitude)) {
            detail =
                "query " + std::to_string(i) + " got " + std::to_string(got) + ", expected " + std::to_string(want);
          }
        }
        if (t.logsumexp && detail.empty()) {
          const double want = empty ? -INFINITY : maximum + std::log(sum), got = lse.get({ib, ih, i});
          if (!(want == got || std::fabs(got - want) <= 4e-6 * amplitude * (1 + std::fabs(want)))) {
            detail = "logsumexp got " + std::to_string(got) + ", expected " + std::to_string(want);
          }
        }
      }
    }
  }
  report(detail.empty(), t, "values", detail);

  Tensor serial = out;
  operands[0] = &serial;
  set_threads(1);
  run_kernel("attention", desc, operands);
  report(serial.bytes == out.bytes, t, "one thread", "results differ from two threads");
}

void check_errors() {
  Tensor out(ATALLA_F32, {1, 4, 5, 8}), lse, q(ATALLA_F32, {1, 4, 5, 8}), k(ATALLA_F32, {1, 2, 6, 8});
  Tensor v(ATALLA_F32, {1, 2, 6, 8}), k3(ATALLA_F32, {1, 3, 6, 8}), mask(ATALLA_F32, {1, 4, 5, 7});
  Tensor integer(ATALLA_I32, {1, 4, 5, 8}), integer_mask(ATALLA_I32, {1, 4, 5, 6});
  struct {
    const char* what;
    atalla_status want;
    std::vector<Tensor*> operands;
  } const cases[] = {
      {"head counts", ATALLA_ERR_ARGUMENT, {&out, &lse, &q, &k3, &v}},
      {"mask size", ATALLA_ERR_ARGUMENT, {&out, &lse, &q, &k, &v, &mask}},
      {"operand count", ATALLA_ERR_ARGUMENT, {&out, &lse, &q, &k}},
      {"integer q", ATALLA_ERR_UNSUPPORTED, {&out, &lse, &integer, &k, &v}},
      {"integer mask", ATALLA_ERR_UNSUPPORTED, {&out, &lse, &q, &k, &v, &integer_mask}},
  };
  for (const auto& c : cases) {
    atalla_launch_desc desc{};
    desc.n_outputs = 2;
    desc.compute_dtype = ATALLA_F32;
    const atalla_status got = run_kernel("attention", desc, c.operands);
    const bool ok = got == c.want && !last_error().empty();
    ok ? ++passed : ++failed;
    if (!ok) std::printf("FAIL %s: status %d, expected %d (%s)\n", c.what, got, c.want, last_error().c_str());
  }
}

}  // namespace

int main() {
  Random random;
  const int64_t lengths[] = {1, 2, 7, 16, 31, 64, 65, 100, 130};
  const int64_t widths[] = {1, 5, 8, 16, 32, 33, 64};
  for (atalla_dtype dtype : {ATALLA_F32, ATALLA_F64, ATALLA_F16, ATALLA_BF16}) {
    const atalla_dtype mask_dtypes[] = {ATALLA_BOOL, ATALLA_F32, dtype};
    for (int i = 0; i < 60; ++i) {
      Case t;
      t.dtype = dtype;
      t.b = 1 + random.below(2), t.hk = 1 + random.below(3), t.h = t.hk * (1 + random.below(2));
      t.l = lengths[random.below(9)], t.s = i % 3 == 0 ? t.l : lengths[random.below(9)];
      t.e = widths[random.below(7)], t.ev = random.below(2) == 0 ? t.e : widths[random.below(7)];
      t.layout = static_cast<int>(random.below(4));
      t.mask = static_cast<int>(random.below(4)) - 1;
      t.mask_dtype = mask_dtypes[random.below(3)];
      t.causal = random.below(3) == 0;
      t.logsumexp = random.below(2) == 0;
      if (i == 7) t.s = 0;
      if (i == 8) t.l = 0;
      if (i == 9) t.ev = 0;
      if (i == 10) t.b = 0;
      check_case(t, random);
    }
  }
  // Several key tiles, with and without masks, and scores large enough for the running maximum to matter.
  for (int i = 0; i < 8; ++i) {
    Case t;
    t.l = 90, t.s = 600 + 37 * i, t.e = 24, t.ev = 40, t.h = 2;
    t.mask = i % 3 - 1, t.mask_dtype = i % 2 == 0 ? ATALLA_BOOL : ATALLA_F32;
    t.causal = i >= 6;
    check_case(t, random, i % 2 == 0 ? 1 : 30);
  }
  Case causal;
  causal.l = causal.s = 700, causal.e = causal.ev = 16, causal.causal = true;
  check_case(causal, random);
  check_errors();
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
