// SPDX-License-Identifier: BSD-3-Clause
//
// Numerics of the kernel `gemm`: NaN and infinities, and operands of 8 and 16 bits. Other values are those of its
// contract (test/kernels).
#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

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
    CHECK(ok);
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
      check::note(ok, __FILE__, __LINE__, std::string(dtype_name(narrow)) + ", round " + std::to_string(round));
    }
  }
}

}  // namespace

int main() {
  Random random;
  check_special_values();
  check_narrow_operands(random);
  return check_report();
}
