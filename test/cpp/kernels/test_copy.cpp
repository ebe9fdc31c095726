// SPDX-License-Identifier: BSD-3-Clause
//
// copy, cat, fill and arange: every pair of dtypes, layouts, and upstream's conversion rules.
#include <algorithm>
#include <numeric>

#include "check.h"
#include "kernel_parameters.h"
#include "kernels/harness.h"

namespace {

using namespace kernel_test;
using Index = std::vector<int64_t>;

const std::vector<atalla_dtype> kReal = {ATALLA_U8,  ATALLA_I8,  ATALLA_I16, ATALLA_I32,  ATALLA_I64,
                                         ATALLA_F16, ATALLA_F32, ATALLA_F64, ATALLA_BOOL, ATALLA_BF16};

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

void test_copy() {
  struct Layout {
    Index sizes;
    std::vector<int> order;
    int64_t gap;
  };
  const std::vector<std::vector<Layout>> groups = {
      {{{}, {}, 1}},
      {{{0, 2}, {}, 1}},
      {{{700}, {}, 1}, {{700}, {}, 3}},
      {{{45, 70}, {}, 1}, {{45, 70}, {1, 0}, 1}, {{45, 70}, {1, 0}, 2}},
      {{{6, 7, 40}, {}, 1}, {{6, 7, 40}, {1, 0, 2}, 1}, {{6, 7, 40}, {2, 0, 1}, 1}},
  };
  Random random;
  for (atalla_dtype from : kReal) {
    for (atalla_dtype to : kReal) {
      for (const auto& group : groups) {
        for (const Layout& a : group) {
          for (const Layout& b : group) {
            Tensor in(from, a.sizes, a.order, a.gap), out(to, b.sizes, b.order, b.gap);
            in.each([&](const Index& i) { in.set(i, random.uniform(from == ATALLA_U8 ? 0 : -120, 120)); });
            if (!CHECK_EQ(copy(out, in), ATALLA_OK)) return;
            int wrong = 0;
            out.each([&](const Index& i) { wrong += out.get(i) != stored(in.get(i), to); });
            check::note(
                wrong == 0, __FILE__, __LINE__,
                std::string(dtype_name(from)) + " to " + dtype_name(to) + ": " + std::to_string(wrong) + " wrong");
          }
        }
      }
    }
  }
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

atalla_status cat(Tensor& out, std::vector<Tensor>& inputs, int64_t dim, atalla_dtype compute) {
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = compute;
  atalla::CatParameters{.dim = dim}.write(&desc);
  std::vector<Tensor*> operands = {&out};
  for (Tensor& input : inputs) operands.push_back(&input);
  return run_kernel("cat", desc, operands);
}
atalla_status cat(Tensor& out, std::vector<Tensor>& inputs, int64_t dim) { return cat(out, inputs, dim, out.dtype); }

// The bytes of `out` with the inputs in their ranges.
std::vector<uint8_t> joined(const Tensor& out, const std::vector<Tensor>& inputs, size_t dim) {
  std::vector<uint8_t> bytes = out.bytes;
  const size_t width = item_size(out.dtype);
  int64_t first = 0;
  for (const Tensor& input : inputs) {
    input.each([&](const Index& from) {
      Index to = from;
      to[dim] += first;
      std::memcpy(bytes.data() + out.offset(to) * width, input.bytes.data() + input.offset(from) * width, width);
    });
    first += input.sizes[dim];
  }
  return bytes;
}

// Of one of several layouts.
Tensor random_tensor(Random& random, atalla_dtype dtype, const Index& sizes, bool contiguous) {
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (contiguous) return Tensor(dtype, sizes);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<int64_t>(i))]);
  return Tensor(dtype, sizes, order, 1 + random.below(2));
}

void test_cat() {
  constexpr int kMostInputs = ATALLA_MAX_OPERANDS - 1;
  Random random;
  for (int trial = 0; trial < 2000; ++trial) {
    const auto dtype = static_cast<atalla_dtype>(trial % (ATALLA_BF16 + 1));
    if (item_size(dtype) == 0) continue;
    Index sizes(static_cast<size_t>(1 + random.below(4)));
    for (int64_t& size : sizes) size = random.below(8) == 0 ? 0 : 1 + random.below(random.below(6) == 0 ? 40 : 5);
    const auto dim = static_cast<size_t>(random.below(static_cast<int64_t>(sizes.size())));
    if (random.below(2) == 0) std::fill_n(sizes.begin(), dim, 1);
    const bool contiguous = random.below(2) == 0;
    std::vector<Tensor> inputs;
    int64_t total = 0;
    for (int64_t k = 1 + random.below(kMostInputs); k > 0; --k) {
      sizes[dim] = random.below(6);
      total += sizes[dim];
      inputs.push_back(random_tensor(random, dtype, sizes, contiguous || random.below(3) == 0));
      random.fill(inputs.back());
    }
    sizes[dim] = total;
    Tensor out = random_tensor(random, dtype, sizes, contiguous || random.below(3) == 0);
    const std::vector<uint8_t> expected = joined(out, inputs, dim);
    if (!CHECK_EQ(cat(out, inputs, static_cast<int64_t>(dim)), ATALLA_OK)) return;
    check::note(
        out.bytes == expected, __FILE__, __LINE__,
        "trial " + std::to_string(trial) + ": " + std::to_string(inputs.size()) + " inputs of " + dtype_name(dtype));
  }
}

// Work that threads divide, along the outer and along the inner dimension.
void test_large_cat() {
  Random random;
  for (const size_t dim : {0, 1}) {
    std::vector<Tensor> inputs;
    Index sizes = {300, 300};
    int64_t total = 0;
    for (const int64_t size : {700, 1, 450, 0, 80}) {
      sizes[dim] = size;
      total += size;
      inputs.emplace_back(ATALLA_F32, sizes);
      random.fill(inputs.back());
    }
    sizes[dim] = total;
    Tensor out(ATALLA_F32, sizes);
    const std::vector<uint8_t> expected = joined(out, inputs, dim);
    CHECK_EQ(cat(out, inputs, static_cast<int64_t>(dim)), ATALLA_OK);
    CHECK(out.bytes == expected);
  }
}

void test_cat_broadcasts_and_normalises() {
  std::vector<Tensor> inputs;
  inputs.emplace_back(ATALLA_BOOL, Index{2, 3}, std::vector<int>{}, 1, 0b01);  // one row, twice
  inputs.emplace_back(ATALLA_BOOL, Index{1, 3});
  const uint8_t rows[2][3] = {{7, 0, 128}, {0, 2, 1}}, expected[9] = {1, 0, 1, 1, 0, 1, 0, 1, 1};
  for (size_t k = 0; k < 2; ++k) std::memcpy(inputs[k].bytes.data(), rows[k], 3);
  Tensor out(ATALLA_BOOL, {3, 3});
  CHECK_EQ(cat(out, inputs, 0), ATALLA_OK);
  CHECK(std::memcmp(out.bytes.data(), expected, sizeof expected) == 0);
}

void test_refused_cats() {
  const auto refused = [](Tensor out, std::vector<Tensor> inputs, int64_t dim, const char* reason,
                          atalla_status expected = ATALLA_ERR_ARGUMENT) {
    const std::vector<uint8_t> before = out.bytes;
    CHECK_EQ(cat(out, inputs, dim, ATALLA_F32), expected);
    check::note(last_error().find(reason) != std::string::npos, __FILE__, __LINE__, last_error());
    CHECK(out.bytes == before);
  };
  const atalla_dtype f32 = ATALLA_F32;
  const Tensor x(f32, {2, 3});
  refused(Tensor(f32, {5, 3}), {x, x}, 0, "the inputs have 4 elements in dimension 0, expected 5");
  refused(Tensor(f32, {4, 3}), {x, x}, 1, "operand 1 (inputs) is [2, 3], expected [4]: *before of");
  refused(Tensor(f32, {4, 3}), {x, Tensor(f32, {2, 4})}, 0, "operand 2 (inputs) is [2, 4], expected [3]: *after of");
  refused(Tensor(f32, {4, 3}), {x, Tensor(f32, {6})}, 0, "operand 2 (inputs) is [6], expected 2 dimensions");
  refused(Tensor(f32, {4, 3}), {x, x}, -1, "operand 0 (out) is [4, 3], expected a dimension -1");
  refused(Tensor(f32, {4, 3}), {x, x}, 2, "operand 0 (out) is [4, 3], expected a dimension 2");
  refused(Tensor(f32, {}), {Tensor(f32, {})}, 0, "dim 0 of a tensor of 0 dimensions");
  refused(Tensor(f32, {4, 3}), {x, Tensor(ATALLA_I32, {2, 3})}, 0, "operand 2 of dtype", ATALLA_ERR_UNSUPPORTED);
  refused(Tensor(ATALLA_BF16, {4, 3}), {x, x}, 0, "operand 0 of dtype", ATALLA_ERR_UNSUPPORTED);
  refused(Tensor(f32, {4, 3}), {x, Tensor()}, 0, "operand 2 is absent");
  refused(Tensor(f32, {4, 3}), {}, 0, "1 outputs of 1 operands, expected 1 of 2 to 12");
}

// The C interface, with immediates, which the harness does not have.
template <class T>
atalla_operand immediate(T value, atalla_dtype dtype) {
  atalla_operand operand{};
  operand.dtype = dtype;
  operand.immediate = 1;
  std::memcpy(operand.sizes, &value, sizeof value);
  return operand;
}

atalla_status run_with_immediates(const char* kernel, Tensor& out, std::vector<atalla_operand> inputs) {
  Device& d = Device::get();
  atalla_addr address = 0;
  atalla_status status = d.api->mem_alloc(d.device, out.bytes.size(), 0, &address);
  if (status != ATALLA_OK) return status;
  auto move = [&](atalla_copy_kind kind, uint64_t dst, uint64_t src) {
    atalla_copy_params p{};
    p.struct_size = sizeof p, p.kind = kind, p.dst = dst, p.src = src, p.row_bytes = out.bytes.size();
    d.api->copy(d.stream, &p);
    return d.api->stream_synchronize(d.stream);
  };
  const auto host = reinterpret_cast<uint64_t>(out.bytes.data());
  move(ATALLA_COPY_HOST_TO_DEVICE, address, host);
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.n_operands = static_cast<uint8_t>(1 + inputs.size());
  desc.compute_dtype = out.dtype;
  describe(out, desc.operands[0]);
  desc.operands[0].addr = address;
  for (size_t k = 0; k < inputs.size(); ++k) {
    desc.operands[k + 1] = inputs[k];
    if (!inputs[k].immediate) desc.operands[k + 1].addr = address;
  }
  d.api->kernel_lookup(kernel, &desc.kernel);
  status = d.api->launch(d.stream, &desc, atalla_launch_desc_bytes(desc.n_operands));
  if (status != ATALLA_OK) last_error() = d.api->last_error();
  const atalla_status after = d.api->stream_synchronize(d.stream);
  if (status == ATALLA_OK && after != ATALLA_OK) status = after, last_error() = d.api->last_error();
  if (status == ATALLA_OK) move(ATALLA_COPY_DEVICE_TO_HOST, host, address);
  d.api->mem_free(d.device, address);
  return status;
}

void test_fill() {
  for (atalla_dtype d : kReal) {
    for (const bool strided : {false, true}) {
      Tensor out = strided ? Tensor(d, {30, 50}, {1, 0}, 2) : Tensor(d, {30, 50});
      const std::vector<uint8_t> before = out.bytes;
      CHECK_EQ(run_with_immediates("fill", out, {immediate(2.75, ATALLA_F64)}), ATALLA_OK);
      int wrong = 0;
      out.each([&](const Index& i) { wrong += out.get(i) != stored(2.75, d); });
      CHECK_EQ(wrong, 0);
      const size_t width = item_size(d);  // gaps stay as they were
      if (strided) CHECK(std::memcmp(out.bytes.data() + width, before.data() + width, width) == 0);
    }
  }
  Tensor out(ATALLA_F32, {3});
  Tensor in(ATALLA_F32, {3});
  atalla_operand memory{};
  describe(in, memory);
  CHECK_EQ(run_with_immediates("fill", out, {memory}), ATALLA_ERR_ARGUMENT);
  CHECK(last_error().find("immediate") != std::string::npos);
}

void test_immediate_input() {
  Tensor out(ATALLA_F32, {2000});
  out.each([&](const Index& i) { out.set(i, static_cast<double>(i[0])); });
  atalla_operand self{};
  describe(out, self);
  CHECK_EQ(run_with_immediates("pointwise.mul", out, {self, immediate(int64_t{3}, ATALLA_I64)}), ATALLA_OK);
  int wrong = 0;
  for (int64_t i = 0; i < 2000; ++i) wrong += out.get({i}) != 3.0 * static_cast<double>(i);
  CHECK_EQ(wrong, 0);
}

void test_arange() {
  for (atalla_dtype d : {ATALLA_I32, ATALLA_I64, ATALLA_F32, ATALLA_F64, ATALLA_BF16}) {
    Tensor out(static_cast<atalla_dtype>(d), {3000}, {}, 2);
    const auto start = immediate(int64_t{-5}, ATALLA_I64), step = immediate(int64_t{3}, ATALLA_I64);
    CHECK_EQ(run_with_immediates("arange", out, {start, step}), ATALLA_OK);
    int wrong = 0;
    for (int64_t i = 0; i < 3000; ++i) wrong += out.get({i}) != stored(static_cast<double>(3 * i - 5), d);
    CHECK_EQ(wrong, 0);
  }
  Tensor out(ATALLA_F64, {1000});
  CHECK_EQ(run_with_immediates("arange", out, {immediate(0.5, ATALLA_F64), immediate(0.1, ATALLA_F64)}), ATALLA_OK);
  CHECK_EQ(out.get({999}), 0.5 + 999 * 0.1);
  Tensor plane(ATALLA_F64, {10, 10});
  CHECK_EQ(run_with_immediates("arange", plane, {immediate(0.5, ATALLA_F64), immediate(0.1, ATALLA_F64)}),
           ATALLA_ERR_ARGUMENT);
}

}  // namespace

int main() {
  test_copy();
  test_sixteen_bit_floats();
  test_conversion_rules();
  test_cat();
  test_large_cat();
  test_cat_broadcasts_and_normalises();
  test_refused_cats();
  test_fill();
  test_immediate_input();
  test_arange();
  return check_report();
}
