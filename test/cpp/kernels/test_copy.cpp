// SPDX-License-Identifier: BSD-3-Clause
//
// The conversions of copy and cat: every number of 16 bits, and upstream's rules.
#include "check.h"
#include "kernels/harness.h"

namespace {

using namespace kernel_test;
using Index = std::vector<int64_t>;

atalla_status copy(Tensor& out, Tensor& in) {
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = out.dtype;
  return run_kernel("copy", desc, {&out, &in});
}

// What a value becomes in dtype d, by way of a tensor of the harness (whose conversions are its own).
double stored(double x, atalla_dtype d) {
  if (x == 0) return x;
  if (d == ATALLA_F16 || d == ATALLA_BF16) x = static_cast<float>(x);  // reached from float
  Tensor t(d, {1});
  t.set({0}, x);
  return t.get({0});
}

// Every half and every bfloat16 widens exactly; every float that lies on or beside a boundary narrows to the nearest.
void test_sixteen_bit_floats() {
  for (const auto dtype : {static_cast<atalla_dtype>(ATALLA_F16), static_cast<atalla_dtype>(ATALLA_BF16)}) {
    constexpr int64_t n = 65536;
    Tensor narrow(dtype, {n}), wide(ATALLA_F32, {n}), back(dtype, {n});
    for (int64_t i = 0; i < n; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(narrow.bytes.data() + 2 * i, &bits, 2);
    }
    CHECK_EQ(copy(wide, narrow), ATALLA_OK);
    int wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double got = wide.get({i}), expected = narrow.get({i});
      wrong += !(got == expected || (std::isnan(got) && std::isnan(expected)));
    }
    CHECK_EQ(wrong, 0);
    for (int side = -1; side <= 1; ++side) {
      Tensor middle(ATALLA_F32, {n});
      for (int64_t i = 0; i + 1 < n; ++i) {
        const auto half = static_cast<float>((narrow.get({i}) + narrow.get({i + 1})) / 2);
        middle.set({i}, side == 0 ? half : std::nextafter(half, side * INFINITY));
      }
      CHECK_EQ(copy(back, middle), ATALLA_OK);
      wrong = 0;
      for (int64_t i = 0; i + 1 < n; ++i) {
        const double got = back.get({i}), expected = stored(middle.get({i}), dtype);
        wrong += !(got == expected || (std::isnan(got) && std::isnan(expected)));
      }
      CHECK_EQ(wrong, 0);
    }
  }
}

void test_conversion_rules() {
  Tensor in(ATALLA_F32, {5}), bytes(ATALLA_U8, {5}), truth(ATALLA_BOOL, {5});
  const double values[] = {-1.5, 300.7, 0.25, NAN, -0.0};
  for (int64_t i = 0; i < 5; ++i) in.set({i}, values[i]);
  CHECK_EQ(copy(bytes, in), ATALLA_OK);
  CHECK_EQ(bytes.get({0}), 255.0);  // by way of int64
  CHECK_EQ(bytes.get({1}), 44.0);
  CHECK_EQ(copy(truth, in), ATALLA_OK);
  const uint8_t expected[] = {1, 1, 1, 1, 0};
  CHECK(std::memcmp(truth.bytes.data(), expected, 5) == 0);
  Tensor odd(ATALLA_BOOL, {3}), numbers(ATALLA_I32, {3});
  odd.bytes[0] = 7, odd.bytes[1] = 0, odd.bytes[2] = 128;  // any byte but 0 is true
  CHECK_EQ(copy(numbers, odd), ATALLA_OK);
  CHECK_EQ(numbers.get({0}), 1.0);
  CHECK_EQ(numbers.get({1}), 0.0);
  CHECK_EQ(numbers.get({2}), 1.0);
}

void test_cat_broadcasts_and_normalises() {
  std::vector<Tensor> inputs;
  inputs.emplace_back(ATALLA_BOOL, Index{2, 3}, std::vector<int>{}, 1, 0b01);  // one row, twice
  inputs.emplace_back(ATALLA_BOOL, Index{1, 3});
  const uint8_t rows[2][3] = {{7, 0, 128}, {0, 2, 1}}, expected[9] = {1, 0, 1, 1, 0, 1, 0, 1, 1};
  for (size_t k = 0; k < 2; ++k) std::memcpy(inputs[k].bytes.data(), rows[k], 3);
  Tensor out(ATALLA_BOOL, {3, 3});
  atalla_launch_desc desc{};
  desc.n_outputs = 1, desc.compute_dtype = ATALLA_BOOL;
  CHECK_EQ(run_kernel("cat", desc, {&out, &inputs[0], &inputs[1]}), ATALLA_OK);
  CHECK(std::memcmp(out.bytes.data(), expected, sizeof expected) == 0);
}

}  // namespace

int main() {
  test_sixteen_bit_floats();
  test_conversion_rules();
  test_cat_broadcasts_and_normalises();
  return check_report();
}
