// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `gemm_grouped` against products of the single groups in double precision.
#include <numeric>

#include "kernels/harness.h"

using namespace kernel_test;

namespace {

int passed = 0, failed = 0;

void report(bool ok, const std::string& what) {
  ok ? ++passed : ++failed;
  if (!ok) std::printf("FAIL %s (%s)\n", what.c_str(), last_error().c_str());
}

enum Divided { kRows, kColumns, kContracted };

struct Operands {
  Tensor out, a, b, ends;
};

// `layout` bit 0: a column-major, bit 1: b, bit 2: out.
Operands make(Divided divided, atalla_dtype dtype, const std::vector<int64_t>& lengths, int64_t rest, int64_t m,
              int64_t n, int64_t k, int layout) {
  const auto groups = static_cast<int64_t>(lengths.size());
  const int64_t total = std::accumulate(lengths.begin(), lengths.end(), rest);
  (divided == kRows ? m : divided == kColumns ? n : k) = total;
  auto matrix = [&](bool stacked, int64_t rows, int64_t cols, bool turned) {
    if (stacked) return Tensor(dtype, {groups, rows, cols}, turned ? std::vector<int>{0, 2, 1} : std::vector<int>{});
    return Tensor(dtype, {rows, cols}, turned ? std::vector<int>{1, 0} : std::vector<int>{});
  };
  Operands o{matrix(divided == kContracted, m, n, layout & 4), matrix(divided == kColumns, m, k, layout & 1),
             matrix(divided == kRows, k, n, layout & 2), Tensor(ATALLA_I32, {groups})};
  int64_t end = 0;
  for (int64_t g = 0; g < groups; ++g) o.ends.set({g}, static_cast<double>(end += lengths[static_cast<size_t>(g)]));
  return o;
}

atalla_status run(Operands& o, atalla_dtype dtype) {
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = dtype;
  return run_kernel("gemm_grouped", desc, {&o.out, &o.a, &o.b, &o.ends});
}

double at(const Tensor& t, int64_t g, int64_t row, int64_t col) {
  return t.sizes.size() == 3 ? t.get({g, row, col}) : t.get({row, col});
}

void check(Divided divided, atalla_dtype dtype, const std::vector<int64_t>& lengths, int64_t rest, int64_t m, int64_t n,
           int64_t k, int layout, Random& random) {
  Operands o = make(divided, dtype, lengths, rest, m, n, k, layout);
  random.fill(o.a);
  random.fill(o.b);
  if (run(o, dtype) != ATALLA_OK) return report(false, "status");
  m = o.out.sizes[o.out.sizes.size() - 2], n = o.out.sizes.back(), k = o.a.sizes.back();
  const double eps = dtype == ATALLA_F64 ? 1e-14 : dtype == ATALLA_F32 ? 1e-5 : dtype == ATALLA_BF16 ? 1e-2 : 1e-3;
  bool ok = true;
  auto compare = [&](int64_t g, int64_t i, int64_t j, int64_t from, int64_t to) {
    double sum = 0, size = 1;
    for (int64_t p = from; p < to; ++p) {
      const double term = at(o.a, g, i, p) * at(o.b, g, p, j);
      sum += term, size += std::fabs(term);
    }
    ok = ok && std::fabs(at(o.out, g, i, j) - sum) <= eps * size;
  };
  int64_t begin = 0;
  for (int64_t g = 0; g < static_cast<int64_t>(lengths.size()); ++g) {
    const int64_t end = begin + lengths[static_cast<size_t>(g)];
    for (int64_t i = divided == kRows ? begin : 0; i < (divided == kRows ? end : m); ++i) {
      for (int64_t j = divided == kColumns ? begin : 0; j < (divided == kColumns ? end : n); ++j)
        compare(g, i, j, divided == kContracted ? begin : 0, divided == kContracted ? end : k);
    }
    begin = end;
  }
  if (divided == kRows)
    for (int64_t i = begin; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) ok = ok && at(o.out, 0, i, j) == 0;
  if (divided == kColumns)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = begin; j < n; ++j) ok = ok && at(o.out, 0, i, j) == 0;
  report(ok, "values, form " + std::to_string(divided) + ", dtype " + dtype_name(dtype) + ", layout " +
                 std::to_string(layout));
}

void check_error(const char* text, atalla_status status, Operands o, atalla_dtype dtype = ATALLA_F32) {
  const atalla_status got = run(o, dtype);
  report(got == status && last_error().find(text) != std::string::npos, std::string("refuses: ") + text);
}

void check_errors() {
  const Operands good = make(kRows, ATALLA_F32, {2, 3}, 0, 0, 4, 6, 0);
  Operands o = good;
  o.ends.set({0}, 4), o.ends.set({1}, 3);
  check_error("group 1 is [4, 3), out of range for 5", ATALLA_ERR_FAULT_INDEX, o);
  o = good;
  o.ends.set({1}, 6);
  check_error("group 1 is [2, 6), out of range for 5", ATALLA_ERR_FAULT_INDEX, o);
  o = good;
  o.ends.set({0}, -1);
  check_error("group 0 is [0, -1)", ATALLA_ERR_FAULT_INDEX, o);
  o = good;
  o.b = Tensor(ATALLA_F32, {2, 5, 4});
  check_error("b is 2 matrices [5, 4], expected 2 of [6, 4]", ATALLA_ERR_ARGUMENT, o);
}

}  // namespace

int main() {
  Random random;
  const std::vector<std::vector<int64_t>> groups = {{3}, {0, 5, 1}, {7, 0, 0, 40}, {1, 1, 1, 1}, {130, 33}, {0}};
  for (Divided divided : {kRows, kColumns, kContracted}) {
    for (atalla_dtype dtype : {ATALLA_F32, ATALLA_F64, ATALLA_F16, ATALLA_BF16}) {
      for (const auto& lengths : groups) {
        for (int layout = 0; layout < 8; ++layout) {
          check(divided, dtype, lengths, layout % 3, 17, 37, 45, layout, random);
          check(divided, dtype, lengths, 0, 1, 1, 3, layout, random);
        }
      }
      check(divided, dtype, {70, 90, 110}, 5, 120, 130, 140, 0, random);
    }
  }
  check_errors();
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
