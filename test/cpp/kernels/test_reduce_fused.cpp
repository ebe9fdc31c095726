// SPDX-License-Identifier: BSD-3-Clause
//
// reduce_fused gives the bits of its two launches, the pointwise one and the reduction, by rows and by columns, for
// inputs that broadcast or have gaps.
#include "check.h"
#include "kernels/harness.h"

namespace {

using namespace kernel_test;
using Index = std::vector<int64_t>;

constexpr const char* kKinds[] = {"reduce.sum", "reduce.mean", "reduce.prod", "reduce.amax", "reduce.amin"};

int64_t hash(const char* name) {
  uint64_t value = 0xCBF29CE484222325ull;
  for (const char* c = name; *c != 0; ++c) value = (value ^ static_cast<unsigned char>(*c)) * 0x100000001B3ull;
  return static_cast<int64_t>(value);
}

// The program of one step, pointwise.mul of two inputs in `dtype`, whose result is the output.
Tensor product(atalla_dtype dtype) {
  const int64_t head = 2 | int64_t{dtype} << 16 | int64_t{1} << 40;
  const int64_t words[] = {1, 2 | 1 << 8 | 1 << 16 | 1 << 24, dtype, dtype, hash("pointwise.mul"), head, 2};
  Tensor program(ATALLA_I64, {7});
  std::memcpy(program.bytes.data(), words, sizeof words);
  return program;
}

Tensor reduced(atalla_dtype dtype, const Index& sizes, uint64_t mask) {
  Index kept = sizes;
  for (size_t d = 0; d < sizes.size(); ++d) kept[d] = mask >> d & 1 ? 1 : sizes[d];
  Tensor out(dtype, kept);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (mask >> d & 1) out.strides[d] = 0;
  }
  return out;
}

atalla_status launch(const char* kernel, atalla_dtype compute, int64_t mask, int64_t kind, std::vector<Tensor*> all) {
  atalla_launch_desc d{};
  d.n_outputs = 1;
  d.compute_dtype = compute;
  d.iparams[0] = mask;
  d.iparams[1] = kind;
  return run_kernel(kernel, d, all);
}

void compare(atalla_dtype dtype, const Index& sizes, uint64_t mask, int64_t kind, int form) {
  Random random;
  // Both dense; one with gaps, in another order of dimensions; one a row for all, or one value for each row.
  std::vector<int> order;
  for (int d = static_cast<int>(sizes.size()); d-- > 0;) order.push_back(d);
  Tensor a = form == 1 ? Tensor(dtype, sizes, order, 2) : Tensor(dtype, sizes), b(dtype, sizes), elements(dtype, sizes);
  a.each([&](const Index& i) { a.set(i, random.uniform(0.9, 1.1)); });
  b.each([&](const Index& i) { b.set(i, random.uniform(0.9, 1.1)); });
  if (form == 2) std::fill(b.strides.begin(), b.strides.end() - 1, 0);
  if (form == 3) b.strides.back() = 0;
  Tensor program = product(dtype), one = reduced(dtype, sizes, mask), two = one;
  CHECK_EQ(launch("pointwise.mul", dtype, 0, 0, {&elements, &a, &b}), ATALLA_OK);
  CHECK_EQ(launch(kKinds[kind], dtype, static_cast<int64_t>(mask), 0, {&one, &elements}), ATALLA_OK);
  CHECK_EQ(launch("reduce_fused", dtype, static_cast<int64_t>(mask), kind, {&two, &a, &b, &program}), ATALLA_OK);
  CHECK(one.bytes == two.bytes);
}

void bits() {
  struct Case {
    Index sizes;
    uint64_t mask;
  };
  const Case cases[] = {{{33}, 1},         {{5, 40}, 2},     {{3, 1000}, 2},    {{70, 300}, 2},      {{2, 70001}, 2},
                        {{2, 70001}, 3},   {{40, 9}, 1},     {{700, 300}, 1},   {{4, 65, 24}, 2},    {{4, 65, 24}, 6},
                        {{3, 7, 5, 8}, 3}, {{200, 1000}, 3}, {{1, 1, 2049}, 4}, {{2, 3, 2, 17}, 14}, {{9, 1, 33}, 4}};
  for (const Case& c : cases) {
    for (const atalla_dtype dtype : {ATALLA_F32, ATALLA_F64}) {
      for (int64_t kind = 0; kind < 5; ++kind) {
        for (int form = 0; form < 4; ++form) compare(dtype, c.sizes, c.mask, kind, form);
      }
    }
    compare(ATALLA_I64, c.sizes, c.mask, 0, 0);
  }
}

void refused_programs() {
  Tensor a(ATALLA_F32, {40, 20}), b = a, program = product(ATALLA_F32);
  Tensor rows = reduced(ATALLA_F32, a.sizes, 1), columns = reduced(ATALLA_F32, a.sizes, 2);
  CHECK_EQ(launch("reduce_fused", ATALLA_F32, 1, 0, {&rows, &a, &program}), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("reduce_fused", ATALLA_I64, 1, 1, {&rows, &a, &b, &program}), ATALLA_ERR_UNSUPPORTED);
  // Short rows, which are reduced across: no runs.
  CHECK_EQ(launch("reduce_fused", ATALLA_F32, 2, 0, {&columns, &a, &b, &program}), ATALLA_ERR_UNSUPPORTED);
  CHECK(last_error().find("innermost kept dimension") != std::string::npos);
}

}  // namespace

int main() {
  bits();
  refused_programs();
  return check_report();
}
