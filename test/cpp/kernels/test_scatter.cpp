// SPDX-License-Identifier: BSD-3-Clause
//
// index_put against plain loops over the elements in order, with many duplicates among the indices, and faults.
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

constexpr atalla_dtype kDtypes[] = {ATALLA_U8,  ATALLA_I8,  ATALLA_I16, ATALLA_I32,  ATALLA_I64,
                                    ATALLA_F16, ATALLA_F32, ATALLA_F64, ATALLA_BOOL, ATALLA_BF16};

// What the element type makes of a result.
double stored(atalla_dtype d, double x) {
  Tensor t(d, {1});
  t.set({0}, x);
  return t.get({0});
}

double combine(atalla_dtype d, int op, double a, double b) {
  switch (op) {
    case 0:
      return b;
    case 1:
      return d == ATALLA_BOOL ? (a != 0 || b != 0) : stored(d, a + b);
    case 2:
      return d == ATALLA_F32 ? static_cast<double>(static_cast<float>(a) * static_cast<float>(b)) : stored(d, a * b);
    case 3:
      return std::isnan(b) || a < b ? b : a;
    default:
      return std::isnan(b) || b < a ? b : a;
  }
}

Tensor indices(Random& random, atalla_dtype d, Index shape, int64_t low, int64_t high) {
  Tensor t(d, std::move(shape));
  t.each([&](const Index& i) { t.set(i, static_cast<double>(low + random.below(high - low))); });
  return t;
}

void compare(const Tensor& got, const Tensor& want, const char* what, int op) {
  int wrong = 0;
  got.each([&](const Index& i) {
    const double a = got.get(i), b = want.get(i);
    wrong += !(a == b || (std::isnan(a) && std::isnan(b)));
  });
  if (wrong != 0) std::fprintf(stderr, "%s, %s, combination %d\n", what, dtype_name(got.dtype), op);
  CHECK_EQ(wrong, 0);
}

atalla_status launch(const char* name, std::vector<Tensor*> operands, Index parameters) {
  atalla_launch_desc d{};
  d.n_outputs = 1;
  d.compute_dtype = operands[0]->dtype;
  for (size_t i = 0; i < parameters.size(); ++i) d.iparams[i] = parameters[i];
  return run_kernel(name, d, operands);
}

// Two index tensors on adjacent dimensions, negative values among them; values broadcast along the first dimension.
void index_put() {
  Random random;
  for (const atalla_dtype d : kDtypes) {
    for (int op = 0; op < 5; ++op) {
      for (const Index& shape : {Index{1, 4, 3, 1}, Index{3, 2, 4, 50}, Index{2, 30, 3, 7}}) {
        Tensor out(d, shape), src(d, {shape[0], 6, 5, shape[3]}, {}, 1, op == 1 ? 1u : 0u);
        Tensor x = indices(random, ATALLA_I64, {6, 5}, -shape[1], shape[1]),
               y = indices(random, ATALLA_I32, {6, 5}, -shape[2], shape[2]);
        random.fill(out);
        random.fill(src);
        Tensor want = out, got = out;
        src.each([&](const Index& i) {
          int64_t p = x.get_integer({i[1], i[2]}), q = y.get_integer({i[1], i[2]});
          const Index to{i[0], p < 0 ? p + shape[1] : p, q < 0 ? q + shape[2] : q, i[3]};
          want.set(to, combine(d, op, want.get(to), src.get(i)));
        });
        CHECK_EQ(launch("index_put", {&got, &src, &x, &y}, {2, 1, op, 1}), ATALLA_OK);
        compare(got, want, "index_put", op);
      }
    }
  }
}

// Rows that threads divide by where they go, and by columns where most go to the same place.
void rows() {
  Random random;
  for (const atalla_dtype d : kDtypes) {
    for (int op = 0; op < 5; ++op) {
      for (const int64_t distinct : {100, 90, 3}) {
        if (d == ATALLA_I64 && op == 2 && distinct == 3) continue;  // a double does not hold the products
        for (const Index& shape : {Index{100, 70}, Index{70, 100}}) {
          const bool outer = shape[0] == 100;
          const int64_t dim = outer ? 0 : 1;
          Index sizes = shape;
          sizes[static_cast<size_t>(dim)] = 300;
          Tensor out(d, shape, outer ? std::vector<int>{} : std::vector<int>{1, 0}), src(d, sizes);
          Tensor x = indices(random, op % 2 == 0 ? ATALLA_I64 : ATALLA_I32, {300}, -distinct, distinct);
          random.fill(out);
          random.fill(src);
          Tensor want = out;
          src.each([&](const Index& i) {
            Index to = i;
            int64_t& p = to[static_cast<size_t>(dim)];
            p = x.get_integer({p});
            p = p < 0 ? p + 100 : p;
            want.set(to, combine(d, op, want.get(to), src.get(i)));
          });
          for (const int threads : {1, 4}) {
            set_threads(threads);
            Tensor got = out;
            CHECK_EQ(launch("index_put", {&got, &src, &x}, {1, dim, op, 1}), ATALLA_OK);
            compare(got, want, "index_put of rows", op);
          }
        }
      }
    }
  }
}

void faults() {
  Random random;
  Tensor out(ATALLA_F32, {4, 3}), src(ATALLA_F32, {2, 3});
  random.fill(out);
  random.fill(src);
  Tensor x(ATALLA_I64, {2}), wide(ATALLA_I64, {2, 3});
  wide.each([&](const Index& i) { wide.set(i, 0); });
  for (const int64_t bad : {int64_t{4}, int64_t{-1}}) {
    x.set({0}, 1);
    x.set({1}, static_cast<double>(bad));
    wide.set({1, 2}, static_cast<double>(bad));
    const Tensor before = out;
    CHECK_EQ(launch("index_put", {&out, &src, &x}, {1, 0, 1, 0}), ATALLA_ERR_FAULT_INDEX);
    CHECK_EQ(launch("scatter", {&out, &src, &wide}, {0, 1}), ATALLA_ERR_FAULT_INDEX);
    CHECK(out.bytes == before.bytes);
  }
  CHECK_EQ(launch("index_put", {&out, &src, &x}, {1, 0, 1, 1}), ATALLA_OK);
}

}  // namespace

int main() {
  index_put();
  rows();
  faults();
  return check_report();
}
