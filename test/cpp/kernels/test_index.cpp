// SPDX-License-Identifier: BSD-3-Clause
//
// index byte for byte against a plain loop, gradients of segments, and faults of indices.
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

// The mean of each segment, its gradient, and indices that lead out of operands.
void segments() {
  Tensor data(ATALLA_F32, {2, 4, 3}), lengths(ATALLA_I64, {2, 3}), out(ATALLA_F32, {2, 3, 3}), grad = out,
                                                                                               gradient = data;
  const double sizes[2][3] = {{1, 0, 3}, {2, 1, 1}};
  data.each([&](const Index& i) { data.set(i, static_cast<double>(i[1] + 1 + 10 * i[0])); });
  lengths.each([&](const Index& i) { lengths.set(i, sizes[i[0]][i[1]]); });
  grad.each([&](const Index& i) { grad.set(i, 6); });
  CHECK_EQ(launch("segment_reduce", {&out, &data, &lengths}, 1), ATALLA_OK);
  CHECK(out.get({0, 2, 1}) == 3 && std::isnan(out.get({0, 1, 0})));
  CHECK_EQ(launch("segment_reduce_backward", {&gradient, &grad, &out, &data, &lengths}, 1), ATALLA_OK);
  CHECK(gradient.get({0, 0, 0}) == 6 && gradient.get({0, 3, 0}) == 2);
  CHECK_EQ(launch("segment_reduce", {&out, &data, &lengths}, 2), ATALLA_OK);
  CHECK_EQ(launch("segment_reduce_backward", {&gradient, &grad, &out, &data, &lengths}, 2), ATALLA_OK);
  CHECK(gradient.get({0, 1, 0}) == 0 && gradient.get({0, 3, 0}) == 6);
  lengths.set({1, 2}, 5);
  CHECK_EQ(launch("segment_reduce", {&out, &data, &lengths}, 0), ATALLA_ERR_FAULT_INDEX);

  Tensor image(ATALLA_F16, {1, 1, 1, 2, 2}), values(ATALLA_F16, {1, 1, 1, 1, 3}), at(ATALLA_I64, values.sizes);
  values.each([&](const Index& i) { values.set(i, 1), at.set(i, i[4] == 1 ? 4 : 2); });
  CHECK_EQ(launch("pool.scatter", {&image, &values, &at}, 1), ATALLA_ERR_FAULT_INDEX);
}

}  // namespace

int main() {
  advanced_index();
  faults();
  segments();
  return check_report();
}
