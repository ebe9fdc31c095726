// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel tile_program: programs written word by word, what it refuses, and words that were changed at random.
#include <cmath>

#include "check.h"
#include "kernel_parameters.h"
#include "kernels/harness.h"
#include "tile_steps.h"

using namespace kernel_test;
using atalla::TileArithmetic;
using atalla::TileOp;

namespace {

constexpr int64_t kLanes = 16;

// Writes words. Values get places of their own.
struct Writer {
  std::vector<int64_t> values, steps;
  std::vector<int64_t> arguments;
  int64_t bytes = 0, n_steps = 0;

  int64_t value(atalla_dtype dtype, int64_t count) {
    values.push_back(static_cast<int64_t>(dtype) | count << 8);
    values.push_back(bytes);
    const int64_t room = (count + 15) / 16 * 16 * static_cast<int64_t>(item_size(dtype));
    bytes += (room + 63) / 64 * 64;
    return static_cast<int64_t>(values.size() / 2) - 1;
  }
  int64_t pointer(int64_t operand, int64_t offset = 0) {
    const int64_t id = value(ATALLA_I64, 1);
    arguments.insert(arguments.end(), {id, operand, offset});
    return id;
  }
  void step(TileOp op, std::vector<int64_t> words) {
    steps.push_back(static_cast<int64_t>(op) | static_cast<int64_t>(words.size()) << 16);
    steps.insert(steps.end(), words.begin(), words.end());
    ++n_steps;
  }
  int64_t arithmetic(TileArithmetic kind, int64_t a, int64_t b, atalla_dtype dtype, int64_t count) {
    const int64_t out = value(dtype, count);
    step(TileOp::kArithmetic, {out, a, b, static_cast<int64_t>(kind)});
    return out;
  }
  int64_t fill(atalla_dtype dtype, int64_t bits) {
    const int64_t out = value(dtype, 1);
    step(TileOp::kFill, {out, bits});
    return out;
  }
  std::vector<int64_t> words(bool sequential = false) const {
    std::vector<int64_t> all = {0x454c4954, 2,          static_cast<int64_t>(values.size() / 2),
                                n_steps,    bytes + 64, static_cast<int64_t>(arguments.size() / 3),
                                sequential, 5,          1,
                                0};
    int64_t name = 0;
    std::memcpy(&name, "test", 5);
    all.push_back(name);
    for (const auto* part : {&values, &arguments, &steps}) all.insert(all.end(), part->begin(), part->end());
    return all;
  }
};

atalla_status run(const std::vector<int64_t>& words, std::vector<Tensor*> tensors, int outputs, int64_t programs) {
  Tensor program(ATALLA_I64, {static_cast<int64_t>(words.size())});
  if (!words.empty()) std::memcpy(program.bytes.data(), words.data(), words.size() * sizeof(int64_t));
  atalla_launch_desc d{};
  d.n_outputs = static_cast<uint8_t>(outputs);
  d.compute_dtype = ATALLA_F32;
  atalla::TileProgramParameters parameters{};
  parameters.grid[0] = programs, parameters.grid[1] = parameters.grid[2] = 1;
  parameters.write(&d);
  tensors.push_back(&program);
  return run_kernel("tile_program", d, tensors);
}

// out[i] = x[i] * 2 + (sum of the tile), tile by tile, for i < n.
std::vector<int64_t> scale_and_sum(int64_t n, int64_t first = 0) {
  Writer w;
  const int64_t out = w.pointer(0), x = w.pointer(1), pid = w.value(ATALLA_I32, 1);
  w.step(TileOp::kProgramId, {pid, 0});
  const int64_t lanes = w.value(ATALLA_I32, kLanes);
  w.step(TileOp::kRange, {lanes, first});
  const int64_t start = w.arithmetic(TileArithmetic::kMul, pid, w.fill(ATALLA_I32, kLanes), ATALLA_I32, 1);
  const int64_t index = w.arithmetic(TileArithmetic::kAdd, lanes, start, ATALLA_I32, kLanes);
  const int64_t mask = w.arithmetic(TileArithmetic::kLt, index, w.fill(ATALLA_I32, n), ATALLA_BOOL, kLanes);
  const int64_t loaded = w.value(ATALLA_F32, kLanes);
  w.step(TileOp::kLoad, {loaded, x, index, sizeof(float), mask, -1, 7});
  const int64_t sum = w.value(ATALLA_F32, 1), left = w.value(ATALLA_F32, kLanes), right = w.value(ATALLA_F32, kLanes),
                result = w.value(ATALLA_F32, kLanes);
  w.step(TileOp::kReduce, {1, kLanes, 1, sum, loaded, left, right, result, 1});
  w.step(TileOp::kArithmetic, {result, left, right, static_cast<int64_t>(TileArithmetic::kAdd)});
  int64_t two = 0;
  const float f = 2.0f;
  std::memcpy(&two, &f, sizeof f);
  const int64_t doubled = w.arithmetic(TileArithmetic::kMul, loaded, w.fill(ATALLA_F32, two), ATALLA_F32, kLanes);
  const int64_t stored = w.value(ATALLA_F32, kLanes), add = static_cast<int64_t>(TileArithmetic::kAdd);
  w.step(TileOp::kStore, {out, index, sizeof(float), stored, mask, 9, add, doubled, sum});
  return w.words();
}

void values() {
  const int64_t n = 83;
  for (const int threads : {1, 2}) {
    set_threads(threads);
    Tensor x(ATALLA_F32, {n}), out(ATALLA_F32, {n});
    for (int64_t i = 0; i < n; ++i) x.set({i}, static_cast<double>(i % 7));
    CHECK_EQ(run(scale_and_sum(n), {&out, &x}, 1, (n + kLanes - 1) / kLanes), ATALLA_OK);
    int wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t k = i / kLanes * kLanes; k < n && k < i / kLanes * kLanes + kLanes; ++k) sum += x.get({k});
      wrong += out.get({i}) != 2 * x.get({i}) + sum;
    }
    CHECK_EQ(wrong, 0);
  }
}

// out = x of 4 rows of 8 elements, whose addresses and masks are those of rows and columns. The first rows and columns
// are active; 5 stands for the others.
std::vector<int64_t> copy_rows(int64_t rows, int64_t columns, int64_t row_words = 4, bool has_offsets = true) {
  Writer w;
  const int64_t out = w.pointer(0), x = w.pointer(1);
  const int64_t column = w.value(ATALLA_I32, 8), row = w.value(ATALLA_I32, 4), other = w.fill(ATALLA_F32, 0x40a00000);
  w.step(TileOp::kRange, {column, 0});
  w.step(TileOp::kRange, {row, 0});
  const int64_t start = w.arithmetic(TileArithmetic::kMul, row, w.fill(ATALLA_I32, 8), ATALLA_I32, 4);
  const int64_t row_mask = w.arithmetic(TileArithmetic::kLt, row, w.fill(ATALLA_I32, rows), ATALLA_BOOL, 4);
  const int64_t column_mask = w.arithmetic(TileArithmetic::kLt, column, w.fill(ATALLA_I32, columns), ATALLA_BOOL, 8);
  const int64_t loaded = w.value(ATALLA_F32, 32), offsets = has_offsets ? column : -1;
  w.step(TileOp::kLoad,
         {loaded, x, offsets, sizeof(float), column_mask, other, 7, has_offsets ? start : -1, row_mask, row_words, 8});
  w.step(TileOp::kStore, {out, column, sizeof(float), loaded, -1, 9, start, -1, 4, 8});
  return w.words();
}

void tiles_of_rows() {
  Tensor x(ATALLA_F32, {4, 8}), out(ATALLA_F32, {4, 8});
  for (int64_t i = 0; i < 32; ++i) x.set({i / 8, i % 8}, static_cast<double>(i));
  CHECK_EQ(run(copy_rows(3, 6), {&out, &x}, 1, 1), ATALLA_OK);
  int wrong = 0;
  for (int64_t i = 0; i < 32; ++i)
    wrong += out.get({i / 8, i % 8}) != (i / 8 < 3 && i % 8 < 6 ? static_cast<double>(i) : 5.0);
  CHECK_EQ(wrong, 0);
  Tensor small(ATALLA_F32, {3, 8});
  CHECK_EQ(run(copy_rows(3, 8), {&out, &small}, 1, 1), ATALLA_OK);
  CHECK_EQ(run(copy_rows(4, 8), {&out, &small}, 1, 1), ATALLA_ERR_FAULT_ADDRESS);
  CHECK_EQ(run(copy_rows(3, 6, 3), {&out, &x}, 1, 1), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(run(copy_rows(3, 6, -4), {&out, &x}, 1, 1), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(run(copy_rows(3, 6, 4, false), {&out, &x}, 1, 1), ATALLA_ERR_ARGUMENT);
}

// out[step * i] = 2 e^(x[i] - 1) for the flags of `mask` that are set; `out` begins at a byte.
std::vector<int64_t> store_powers(int64_t step, int64_t first_byte, int64_t bits = 0x3f800000) {
  Writer w;
  const int64_t out = w.pointer(0, first_byte), x = w.pointer(1), flags = w.pointer(2);
  const int64_t lanes = w.value(ATALLA_I32, kLanes), mask = w.value(ATALLA_BOOL, kLanes);
  const int64_t loaded = w.value(ATALLA_F32, kLanes), power = w.value(ATALLA_F32, kLanes);
  w.step(TileOp::kRange, {lanes, 0});
  w.step(TileOp::kLoad, {mask, flags, lanes, 1, -1, -1, 1});
  w.step(TileOp::kLoad, {loaded, x, lanes, sizeof(float), -1, -1, 2});
  w.step(TileOp::kExp, {power, loaded, w.fill(ATALLA_F32, bits)});
  const int64_t at = w.arithmetic(TileArithmetic::kMul, lanes, w.fill(ATALLA_I32, step), ATALLA_I32, kLanes);
  const int64_t stored = w.value(ATALLA_F32, kLanes), add = static_cast<int64_t>(TileArithmetic::kAdd);
  w.step(TileOp::kStore, {out, at, sizeof(float), stored, mask, 3, add, power, power});
  return w.words();
}

// A store that computes gives the same where the elements lie in one piece, are apart, or lie between words.
void made_stores() {
  Tensor x(ATALLA_F32, {kLanes}), flags(ATALLA_BOOL, {kLanes});
  for (int64_t i = 0; i < kLanes; ++i) x.set({i}, i < 2 ? -1000.0 : static_cast<double>(i) / 4);
  for (const int64_t step : {1, 2}) {
    for (const int64_t first_byte : {0, 2, 4}) {
      for (const int pattern : {0, 1, 2}) {  // all, the first ones, every other one
        Tensor out(ATALLA_F32, {2 * kLanes + 1});
        for (int64_t i = 0; i <= 2 * kLanes; ++i) out.set({i}, 0);
        for (int64_t i = 0; i < kLanes; ++i) flags.set({i}, pattern == 0 || (pattern == 1 ? i < 5 : i % 2 == 0));
        CHECK_EQ(run(store_powers(step, first_byte), {&out, &x, &flags}, 1, 1), ATALLA_OK);
        int wrong = 0;
        for (int64_t i = 0; i < kLanes; ++i) {
          float found = 0;
          std::memcpy(&found, out.bytes.data() + first_byte + step * i * 4, sizeof found);
          const double expected = flags.get({i}) != 0 ? 2 * std::exp(x.get({i}) - 1) : 0;
          wrong += !(std::fabs(static_cast<double>(found) - expected) <= 1e-6 * expected);
        }
        CHECK_EQ(wrong, 0);
      }
    }
  }
  // -inf and NaN side by side: no element of a vector hides the others.
  Tensor out(ATALLA_F32, {2 * kLanes + 1});
  for (int64_t i = 0; i < kLanes; ++i) flags.set({i}, 1), x.set({i}, -INFINITY);
  x.set({3}, NAN), x.set({9}, 0);
  CHECK_EQ(run(store_powers(1, 0, 0), {&out, &x, &flags}, 1, 1), ATALLA_OK);
  for (int64_t i = 0; i < kLanes; ++i) {
    if (i == 3) CHECK(std::isnan(out.get({i})));
    else CHECK_EQ(out.get({i}), i == 9 ? 2.0 : 0.0);
  }
}

// Offsets that count up and wrap around are not one piece.
void wrapped_offsets() {
  Tensor x(ATALLA_F32, {64}), out(ATALLA_F32, {64});
  CHECK_EQ(run(scale_and_sum(64, INT32_MAX - 3), {&out, &x}, 1, 1), ATALLA_ERR_FAULT_ADDRESS);
}

// A loop that adds its index to a carried value, and a branch on the result.
void control() {
  for (const int64_t rounds : {0, 1, 10}) {
    Writer w;
    const int64_t out = w.pointer(0), total = w.value(ATALLA_I32, 1), index = w.value(ATALLA_I32, 1);
    const int64_t zero = w.fill(ATALLA_I32, 0), one = w.fill(ATALLA_I32, 1), bound = w.fill(ATALLA_I32, rounds);
    const int64_t ten = w.fill(ATALLA_I32, 10), minus = w.fill(ATALLA_I32, -1);
    w.step(TileOp::kCopy, {total, zero});
    w.step(TileOp::kLoop, {index, zero, bound, one, 0, 1});
    w.step(TileOp::kArithmetic, {total, total, index, static_cast<int64_t>(TileArithmetic::kAdd)});
    const int64_t large = w.arithmetic(TileArithmetic::kGt, total, ten, ATALLA_BOOL, 1);
    w.step(TileOp::kBranch, {large, 1, 1});
    w.step(TileOp::kCopy, {total, minus});
    w.step(TileOp::kArithmetic, {total, total, one, static_cast<int64_t>(TileArithmetic::kAdd)});
    w.step(TileOp::kStore, {out, -1, 0, total, -1, 1});
    Tensor result(ATALLA_I32, {1});
    CHECK_EQ(run(w.words(), {&result}, 1, 1), ATALLA_OK);
    const int64_t sum = rounds * (rounds - 1) / 2;
    CHECK_EQ(result.get({0}), static_cast<double>(sum > 10 ? -1 : sum + 1));
  }
}

void faults() {
  Tensor x(ATALLA_F32, {64}), out(ATALLA_F32, {64});
  // The mask leaves elements up to 200, but the tensors have 64.
  CHECK_EQ(run(scale_and_sum(200), {&out, &x}, 1, 10), ATALLA_ERR_FAULT_ADDRESS);
  CHECK(last_error().find("test, line 7: program instance (4, 0, 0) reads address 0x") != std::string::npos);
  CHECK_EQ(run(scale_and_sum(64, -1), {&out, &x}, 1, 1), ATALLA_ERR_FAULT_ADDRESS);
  // An input must not be written.
  CHECK_EQ(run(scale_and_sum(64), {&out, &x}, 0, 1), ATALLA_ERR_FAULT_ADDRESS);
  CHECK(last_error().find("writes address") != std::string::npos);
}

void refusals() {
  Tensor x(ATALLA_F32, {64}), out(ATALLA_F32, {64});
  const std::vector<int64_t> good = scale_and_sum(64);
  CHECK_EQ(run(good, {&out, &x}, 1, 4), ATALLA_OK);
  CHECK_EQ(run(good, {&out, &x}, 1, -1), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(run(good, {&out}, 1, 4), ATALLA_ERR_ARGUMENT);  // an argument names the second operand
  for (size_t length = 0; length < good.size(); ++length)
    CHECK_EQ(run({good.begin(), good.begin() + static_cast<int64_t>(length)}, {&out, &x}, 1, 4), ATALLA_ERR_ARGUMENT);
  const auto changed = [&](size_t at, int64_t word) {
    std::vector<int64_t> words = good;
    words[at] = word;
    return run(words, {&out, &x}, 1, 4);
  };
  for (const size_t at : {0, 1, 4, 7, 8}) CHECK_EQ(changed(at, -1), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(changed(1, 1), ATALLA_OK);  // the first version
  CHECK_EQ(changed(1, 3), ATALLA_ERR_ARGUMENT);
  // Of the last step, a store: the operation and the operands of its arithmetic.
  CHECK_EQ(changed(good.size() - 3, 99), ATALLA_ERR_ARGUMENT);
  for (const size_t from_end : {1, 2}) CHECK_EQ(changed(good.size() - from_end, 0), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(changed(4, int64_t{1} << 40), ATALLA_ERR_ARGUMENT);  // bytes of an instance
  CHECK_EQ(changed(12, 32), ATALLA_ERR_ARGUMENT);               // a place that is not aligned
  CHECK_EQ(changed(12, int64_t{1} << 60), ATALLA_ERR_ARGUMENT);
}

// A changed word gives a status and never an access outside of the instance's memory or the operands: the sanitizers
// see it. Programs without loops end.
void random_words() {
  Random random;
  Tensor x(ATALLA_F32, {64}), out(ATALLA_F32, {64});
  const std::vector<int64_t> good = scale_and_sum(64);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<int64_t> words = good;
    for (int64_t k = random.below(3); k >= 0; --k) {
      int64_t& word = words[static_cast<size_t>(random.below(static_cast<int64_t>(words.size())))];
      switch (random.below(4)) {
        case 0:
          word = static_cast<int64_t>(random.next());
          break;
        case 1:
          word += random.below(9) - 4;
          break;
        case 2:
          word ^= int64_t{1} << random.below(63);
          break;
        default:
          word = random.below(40);
      }
    }
    bool loops = false;
    size_t at = 11 + static_cast<size_t>(words[2] < 0 || words[2] > 99 ? 0 : words[2]) * 2;
    at += static_cast<size_t>(words[5] < 0 || words[5] > 99 ? 0 : words[5]) * 3;
    for (; at < words.size(); ++at) {
      const int64_t op = words[at] & 0xffff;
      loops |= op == static_cast<int64_t>(TileOp::kLoop) || op == static_cast<int64_t>(TileOp::kWhileLoop);
    }
    (run(words, {&out, &x}, 1, loops ? 0 : 4) == ATALLA_OK ? accepted : refused) += 1;
  }
  CHECK(accepted > 1000);
  CHECK(refused > 1000);
}

}  // namespace

int main() {
  values();
  tiles_of_rows();
  made_stores();
  wrapped_offsets();
  control();
  faults();
  refusals();
  random_words();
  return check_report();
}
