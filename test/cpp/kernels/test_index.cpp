// SPDX-License-Identifier: BSD-3-Clause
//
// index_select, gather, index and triangle, compared byte for byte with plain loops.
#include <cstdio>

#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

constexpr atalla_dtype kDtypes[] = {ATALLA_U8,  ATALLA_I8,  ATALLA_I16,  ATALLA_I32, ATALLA_I64,  ATALLA_F16,
                                    ATALLA_F32, ATALLA_F64, ATALLA_BOOL, ATALLA_C64, ATALLA_C128, ATALLA_BF16};

size_t width(atalla_dtype d) { return d == ATALLA_C128 ? 16 : item_size(d); }

// Any dtype, C128 included, filled with random bytes.
Tensor bytes_tensor(Random& random, atalla_dtype d, Index shape, std::vector<int> order = {}, int64_t gap = 1) {
  Tensor t(d, std::move(shape), std::move(order), gap);
  t.bytes.resize(t.bytes.size() / item_size(d) * width(d));
  for (uint8_t& b : t.bytes) b = static_cast<uint8_t>(random.below(d == ATALLA_BOOL ? 2 : 256));
  return t;
}

std::string element(const Tensor& t, const Index& i) {
  return {reinterpret_cast<const char*>(t.bytes.data()) + t.offset(i) * static_cast<int64_t>(width(t.dtype)),
          width(t.dtype)};
}

Tensor indices(Random& random, atalla_dtype d, Index shape, int64_t low, int64_t high, uint32_t broadcast = 0,
               int64_t gap = 1) {
  Tensor t(d, std::move(shape), {}, gap, broadcast);
  t.each([&](const Index& i) { t.set(i, static_cast<double>(low + random.below(high - low))); });
  return t;
}

atalla_status launch(const char* name, std::vector<Tensor*> operands, int64_t p0, int64_t p1 = 0, int alias = -1) {
  atalla_launch_desc d{};
  d.n_outputs = 1;
  d.compute_dtype = operands[0]->dtype;
  d.iparams[0] = p0;
  d.iparams[1] = p1;
  return run_kernel(name, d, operands, alias);
}

template <class Source>
void compare(const Tensor& out, const Tensor& in, Source&& source, const char* what) {
  int wrong = 0;
  out.each([&](const Index& i) { wrong += element(out, i) != element(in, source(i)); });
  if (wrong != 0) std::fprintf(stderr, "%s, %s\n", what, dtype_name(out.dtype));
  CHECK_EQ(wrong, 0);
}

void index_select() {
  Random random;
  for (const atalla_dtype d : kDtypes) {
    for (const Index& shape : {Index{7}, Index{5, 9}, Index{4, 3, 6}, Index{3, 1, 2, 5}, Index{40, 64}}) {
      for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
        for (const int64_t length : {0, 1, 11}) {
          for (int form = 0; form < 3; ++form) {
            std::vector<int> order;
            for (int k = static_cast<int>(shape.size()); form == 1 && k-- > 0;) order.push_back(k);
            Tensor in = bytes_tensor(random, d, shape, order, form == 2 ? 2 : 1);
            Index size = shape;
            size[dim] = length;
            Tensor out = bytes_tensor(random, d, size, {}, form == 2 ? 3 : 1);
            Tensor x = indices(random, form == 1 ? ATALLA_I32 : ATALLA_I64, {length}, 0, shape[dim], 0, 1 + form);
            CHECK_EQ(launch("index_select", {&out, &in, &x}, dim), ATALLA_OK);
            compare(out, in, [&](Index i) { return i[dim] = x.get_integer({i[dim]}), i; }, "index_select");
          }
        }
      }
    }
  }
  Tensor scalar = bytes_tensor(random, ATALLA_F32, {}), out = bytes_tensor(random, ATALLA_F32, {});
  Tensor zero = indices(random, ATALLA_I64, {1}, 0, 1);
  CHECK_EQ(launch("index_select", {&out, &scalar, &zero}, 0), ATALLA_OK);
  CHECK(element(out, {}) == element(scalar, {}));
}

void gather() {
  Random random;
  for (const atalla_dtype d : kDtypes) {
    for (int dim = 0; dim < 3; ++dim) {
      for (int form = 0; form < 2; ++form) {
        Tensor in = bytes_tensor(random, d, {5, 6, 7}, form ? std::vector<int>{2, 0, 1} : std::vector<int>{}, 1 + form);
        Index size = {4, 6, 3};
        size[dim] = 9;
        Tensor out = bytes_tensor(random, d, size);
        Tensor x = indices(random, form ? ATALLA_I32 : ATALLA_I64, size, 0, in.sizes[dim], form ? 2 : 0);
        CHECK_EQ(launch("gather", {&out, &in, &x}, dim), ATALLA_OK);
        compare(
            out, in,
            [&](Index i) {
              const int64_t v = x.get_integer(i);
              return i[dim] = v, i;
            },
            "gather");
      }
    }
  }
  Tensor scalar = bytes_tensor(random, ATALLA_I16, {}), out = bytes_tensor(random, ATALLA_I16, {}),
         zero(ATALLA_I64, {});
  zero.set({}, 0);
  CHECK_EQ(launch("gather", {&out, &scalar, &zero}, 0), ATALLA_OK);
  CHECK(element(out, {}) == element(scalar, {}));
}

void advanced_index() {
  Random random;
  const Index shape = {4, 5, 6};
  for (const atalla_dtype d : kDtypes) {
    for (int k = 1; k <= 3; ++k) {
      for (int first = 0; first + k <= 3; ++first) {
        for (const Index& replaced : {Index{}, Index{7}, Index{2, 3}, Index{2, 0}}) {
          const int rank = static_cast<int>(replaced.size());
          Tensor in = bytes_tensor(random, d, shape, k == 2 ? std::vector<int>{1, 2, 0} : std::vector<int>{});
          Index size(shape.begin(), shape.begin() + first);
          size.insert(size.end(), replaced.begin(), replaced.end());
          size.insert(size.end(), shape.begin() + first + k, shape.end());
          Tensor out = bytes_tensor(random, d, size);
          std::vector<Tensor> x;
          for (int j = 0; j < k; ++j) {
            // The first index is broadcast along its last dimension.
            const uint32_t broadcast = j == 0 && rank == 2 ? 2 : 0;
            x.push_back(indices(random, j % 2 ? ATALLA_I32 : ATALLA_I64, replaced, -shape[first + j], shape[first + j],
                                broadcast));
          }
          std::vector<Tensor*> operands = {&out, &in};
          for (Tensor& t : x) operands.push_back(&t);
          CHECK_EQ(launch("index", operands, k, first), ATALLA_OK);
          compare(
              out, in,
              [&](const Index& i) {
                const Index at(i.begin() + first, i.begin() + first + rank);
                Index source(i.begin(), i.begin() + first);
                for (int j = 0; j < k; ++j) {
                  const int64_t v = x[j].get_integer(at);
                  source.push_back(v < 0 ? v + shape[first + j] : v);
                }
                source.insert(source.end(), i.begin() + first + rank, i.end());
                return source;
              },
              "index");
        }
      }
    }
  }
}

// A fault names the index, its position and the range, and nothing is written.
void faults() {
  Random random;
  Tensor in = bytes_tensor(random, ATALLA_F32, {5, 3}), out = bytes_tensor(random, ATALLA_F32, {4, 3});
  const std::vector<uint8_t> before = out.bytes;
  const auto faulted = [&](const char* text) {
    const bool named = last_error().find(text) != std::string::npos;
    if (!named) std::fprintf(stderr, "'%s' is not in '%s'\n", text, last_error().c_str());
    return named && out.bytes == before;
  };
  Tensor x = indices(random, ATALLA_I64, {4}, 0, 5);
  x.set({2}, 5);
  CHECK_EQ(launch("index_select", {&out, &in, &x}, 0), ATALLA_ERR_FAULT_INDEX);
  CHECK(faulted("index 5 at position [2] of operand 2 is out of bounds [0, 5) for dimension 0"));
  x.set({2}, -1);
  CHECK_EQ(launch("index_select", {&out, &in, &x}, 0), ATALLA_ERR_FAULT_INDEX);
  CHECK(faulted("index -1 at position [2]"));
  CHECK_EQ(launch("index", {&out, &in, &x}, 1, 0), ATALLA_OK);
  out.bytes = before;
  x.set({2}, -6);
  CHECK_EQ(launch("index", {&out, &in, &x}, 1, 0), ATALLA_ERR_FAULT_INDEX);
  CHECK(faulted("index -6 at position [2] of operand 2 is out of bounds [-5, 5) for dimension 0"));
  Tensor y = indices(random, ATALLA_I32, {4, 3}, 0, 3);
  y.set({3, 1}, 3);
  CHECK_EQ(launch("gather", {&out, &in, &y}, 1), ATALLA_ERR_FAULT_INDEX);
  CHECK(faulted("index 3 at position [3, 1] of operand 2 is out of bounds [0, 3) for dimension 1"));

  Tensor empty = bytes_tensor(random, ATALLA_F32, {0, 3});
  Tensor zero = indices(random, ATALLA_I64, {4}, 0, 1);
  CHECK_EQ(launch("index_select", {&out, &empty, &zero}, 0), ATALLA_ERR_FAULT_INDEX);

  // The last of many values, checked by pieces on two threads.
  Tensor table = bytes_tensor(random, ATALLA_U8, {9}), many(ATALLA_U8, {300000});
  Tensor long_index = indices(random, ATALLA_I64, {300000}, 0, 9);
  set_threads(2);
  CHECK_EQ(launch("index_select", {&many, &table, &long_index}, 0), ATALLA_OK);
  compare(many, table, [&](const Index& i) { return Index{long_index.get_integer(i)}; }, "many");
  long_index.set({299999}, 9);
  CHECK_EQ(launch("index_select", {&many, &table, &long_index}, 0), ATALLA_ERR_FAULT_INDEX);
}

void bad_arguments() {
  Random random;
  Tensor in = bytes_tensor(random, ATALLA_F32, {5, 3}), out = bytes_tensor(random, ATALLA_F32, {4, 3});
  Tensor x = indices(random, ATALLA_I64, {4}, 0, 3), real(ATALLA_F32, {4}),
         other = bytes_tensor(random, ATALLA_F64, {4, 3});
  CHECK_EQ(launch("index_select", {&out, &in, &real}, 0), ATALLA_ERR_UNSUPPORTED);
  CHECK_EQ(launch("index_select", {&other, &in, &x}, 0), ATALLA_ERR_UNSUPPORTED);
  CHECK_EQ(launch("index_select", {&out, &in, &x}, 1), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("index_select", {&out, &in, &x}, 2), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("gather", {&out, &in, &x}, 0), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("index", {&out, &in, &x}, 2, 0), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("index", {&out, &in, &x}, 1, 2), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("index", {&out, &in, &x}, 1, INT64_MAX), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("index_select", {&out, &in, nullptr}, 0), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("triangle", {&x, &x}, 0, 0), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("triangle", {&in, &in}, 0, 2), ATALLA_ERR_ARGUMENT);
}

void triangle() {
  Random random;
  for (const atalla_dtype d : kDtypes) {
    for (const Index& shape : {Index{4, 4}, Index{3, 7}, Index{7, 3}, Index{2, 5, 4}, Index{0, 3}, Index{1, 1}}) {
      for (const int64_t diagonal :
           {int64_t{0}, int64_t{1}, int64_t{-2}, int64_t{9}, int64_t{-9}, INT64_MAX, INT64_MIN}) {
        for (const int upper : {0, 1}) {
          for (int form = 0; form < 3; ++form) {
            std::vector<int> order;
            for (int k = static_cast<int>(shape.size()); form == 1 && k-- > 0;) order.push_back(k);
            Tensor in = bytes_tensor(random, d, shape, order),
                   out = bytes_tensor(random, d, shape, form == 2 ? order : std::vector<int>{}, 1 + form);
            if (form == 2) out = in;
            CHECK_EQ(launch("triangle", {&out, &in}, diagonal, upper, form == 2 ? 1 : -1), ATALLA_OK);
            int wrong = 0;
            out.each([&](const Index& i) {
              const int64_t row = i[i.size() - 2], column = i[i.size() - 1];
              const bool kept = upper ? column - row >= diagonal : column - row <= diagonal;
              wrong += element(out, i) != (kept ? element(in, i) : std::string(width(d), '\0'));
            });
            CHECK_EQ(wrong, 0);
          }
        }
      }
    }
  }
}

}  // namespace

int main() {
  index_select();
  gather();
  advanced_index();
  faults();
  bad_arguments();
  triangle();
  return check_report();
}
