// SPDX-License-Identifier: BSD-3-Clause
//
// Sizes that the call determines, mutable buffers, replaced parameters, goldens: validation and runs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "driver/support.h"
#include "loadable/samples.h"

using namespace loadable_test;

namespace {

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool fails(atalla_status status, atalla_status expected, std::initializer_list<const char*> parts, int line) {
  std::string text = status == ATALLA_OK ? "" : atalla_rt_last_error();
  bool good = status == expected;
  for (const char* part : parts) good = good && contains(text, part);
  return check::note(good, __FILE__, line, "status " + std::to_string(status) + ": " + text);
}
#define FAILS(call, status, ...) fails((call), (status), {__VA_ARGS__}, __LINE__)

struct Loaded {
  atalla_program handle = nullptr;
  explicit Loaded(const Writer& w) {
    Bytes file = w.build();
    if (!CHECK_EQ(atalla_program_open_memory(file.data(), file.size(), &handle), ATALLA_OK) ||
        !CHECK_EQ(atalla_program_load(handle, 0), ATALLA_OK))
      std::fprintf(stderr, "%s\n", atalla_rt_last_error());
  }
  ~Loaded() { atalla_program_close(handle); }
  atalla_status run(std::vector<float> x, std::vector<float>& y, std::vector<int64_t> in, std::vector<int64_t> out,
                    uint32_t method = 0) const {
    atalla_tensor a = tensor(x, in), b = tensor(y, out);
    atalla_run_params params{};
    params.struct_size = sizeof params;
    params.method = method;
    params.flags = ATALLA_RUN_HOST;
    params.inputs = &a;
    params.n_inputs = 1;
    params.outputs = &b;
    params.n_outputs = 1;
    return atalla_program_run(handle, &params);
  }
  static atalla_tensor tensor(const std::vector<float>& data, const std::vector<int64_t>& sizes) {
    atalla_tensor t{};
    t.addr = reinterpret_cast<uintptr_t>(data.data());
    t.dtype = ATALLA_F32;
    t.ndim = static_cast<uint8_t>(sizes.size());
    int64_t stride = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      t.sizes[d] = sizes[d];
      t.strides[d] = stride;
      stride *= sizes[d];
    }
    return t;
  }
};

std::vector<float> ramp(size_t n) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 17) - 5;
  return x;
}

std::vector<float> expected_rows(const std::vector<float>& x) {
  std::vector<float> y;
  for (size_t m = 0; m < x.size() / 3; ++m)
    for (size_t n = 0; n < 2; ++n) {
      float sum = sample_bias()[n];
      for (size_t k = 0; k < 3; ++k) sum += x[3 * m + k] * sample_weight()[2 * k + n];
      y.push_back(2 * sum);
    }
  return y;
}

void test_dynamic_runs() {
  for (bool bounded : {true, false}) {
    CHECK_EQ(problems_of(dynamic_sample(bounded).build()), "");
    Loaded program(dynamic_sample(bounded));
    std::vector<int64_t> sizes = {1, 8, 3, 3, 8, 5, 1};
    if (!bounded) sizes.insert(sizes.end(), {1000, 4, 3000, 17});
    for (int64_t rows : sizes) {
      std::vector<float> x = ramp(static_cast<size_t>(3 * rows)), y(static_cast<size_t>(2 * rows));
      if (!CHECK_EQ(program.run(x, y, {rows, 3}, {rows, 2}), ATALLA_OK))
        std::fprintf(stderr, "%s\n", atalla_rt_last_error());
      CHECK(y == expected_rows(x));
      atalla_tensor in = Loaded::tensor(x, {rows, 3}), out{};
      CHECK_EQ(atalla_program_resolve(program.handle, 0, &in, 1, &out, 1), ATALLA_OK);
      CHECK(out.ndim == 2 && out.sizes[0] == rows && out.sizes[1] == 2 && out.strides[0] == 2 && out.addr == 0);
    }
    std::vector<float> x(60), y(60);
    FAILS(program.run(x, y, {0, 3}, {0, 2}), ATALLA_ERR_ARGUMENT, "input 0 'x': dimension 0 is 0, expected",
          bounded ? "1 to 8" : "at least 1");
    if (bounded) {
      FAILS(program.run(x, y, {9, 3}, {9, 2}), ATALLA_ERR_ARGUMENT, "dimension 0 is 9, expected 1 to 8");
    } else {  // rather an error than an overflow
      FAILS(program.run(x, y, {int64_t{1} << 46, 3}, {int64_t{1} << 46, 2}), ATALLA_ERR_FORMAT, "n = 70368744177664");
      CHECK_EQ(program.run(ramp(12), y, {4, 3}, {4, 2}), ATALLA_OK);
    }
    FAILS(program.run(x, y, {2, 4}, {2, 2}), ATALLA_ERR_ARGUMENT, "has shape [2, 4], expected [2, 3]",
          "dimension 1 is 4, expected 3");
    FAILS(program.run(x, y, {2, 3}, {3, 2}), ATALLA_ERR_ARGUMENT, "output 0", "dimension 0 is 3, expected 2");
    FAILS(program.run(x, y, {6}, {2, 2}), ATALLA_ERR_ARGUMENT, "input 0 'x' has 1 dimensions, expected 2");
    atalla_dim_info info{};
    info.struct_size = sizeof info;
    CHECK_EQ(atalla_program_input_dim(program.handle, 0, 0, 0, &info), ATALLA_OK);
    CHECK(info.min == 1 && info.max == (bounded ? 8 : (int64_t{1} << 47) - 1) && info.multiple == 1 &&
          std::string(info.symbol) == "n");
    CHECK_EQ(atalla_program_input_dim(program.handle, 0, 0, 1, &info), ATALLA_OK);
    CHECK(info.min == 3 && info.max == 3 && info.symbol == nullptr);
    FAILS(atalla_program_input_dim(program.handle, 0, 0, 2, &info), ATALLA_ERR_ARGUMENT, "dimension 2");
  }
}

void test_divisible() {
  Writer w = dynamic_sample(true);
  w.symbols[0].multiplier = 4;
  w.symbols[0].value = 2;
  w.symbols[0].max = 2;
  w.expressions.insert(w.expressions.begin(), {ExpressionOp::kSymbol, {}, 0, 0, 0, 0});
  w.expressions.insert(w.expressions.begin() + 1, {ExpressionOp::kConstant, {}, 0, 0, 0, 4});
  w.expressions[2] = {ExpressionOp::kMul, {}, 0, 1, 0, 0};
  for (size_t i = 3; i < w.expressions.size(); ++i)
    if (w.expressions[i].op >= ExpressionOp::kAdd) w.expressions[i].a += 2, w.expressions[i].b += 2;
  for (Dynamic& r : w.dynamic) r.expression += 2;
  Loaded program(w);
  for (int64_t rows : {4, 8}) {
    std::vector<float> x = ramp(static_cast<size_t>(3 * rows)), y(static_cast<size_t>(2 * rows));
    CHECK_EQ(program.run(x, y, {rows, 3}, {rows, 2}), ATALLA_OK);
    CHECK(y == expected_rows(x));
  }
  std::vector<float> x(60), y(60);
  FAILS(program.run(x, y, {6, 3}, {6, 2}), ATALLA_ERR_ARGUMENT,
        "dimension 0 is 6, expected a multiple of 4 from 4 to 8");
}

void test_guard() {
  Writer w = dynamic_sample(true);
  uint32_t five = w.constant(5), differs = w.expression(ExpressionOp::kNe, 0, five);
  w.guards.push_back({w.string("Ne(n, 5)"), differs, 0});
  Loaded program(w);
  std::vector<float> x = ramp(15), y(10);
  FAILS(program.run(x, y, {5, 3}, {5, 2}), ATALLA_ERR_ARGUMENT, "method 'forward' with n = 5: expected Ne(n, 5)");
  CHECK_EQ(program.run(ramp(12), y, {4, 3}, {4, 2}), ATALLA_OK);
}

// The sample, spoiled, and what the validator must say.
bool spoiled(const char* part, Writer w, const std::function<void(Writer&)>& spoil, int line) {
  spoil(w);
  std::string text = problems_of(w.build());
  return check::note(contains(text, part), __FILE__, line, std::string("expected '") + part + "' in: " + text);
}
#define DYNAMIC(part, ...) spoiled((part), dynamic_sample(true), __VA_ARGS__, __LINE__)
#define STATE(part, ...) spoiled((part), state_sample(), __VA_ARGS__, __LINE__)

void test_validation() {
  DYNAMIC("symbol 0: value 8 in [1, 7]", [](Writer& w) { w.symbols[0].max = 7; });
  DYNAMIC("expected 0 <= min", [](Writer& w) { w.symbols[0].min = -1; });
  DYNAMIC("max < 2^47", [](Writer& w) { w.symbols[0].max = INT64_MAX; });
  DYNAMIC("multiplier 0", [](Writer& w) { w.symbols[0].multiplier = 0; });
  DYNAMIC("gives another size", [](Writer& w) { w.symbols[0].offset = 1; });
  DYNAMIC("input 1 is none of method 0", [](Writer& w) { w.symbols[0].input = 1; });
  DYNAMIC("dimension 2 of an input", [](Writer& w) { w.symbols[0].dim = 2; });
  DYNAMIC("method 7 lies outside", [](Writer& w) { w.symbols[0].method = 7; });
  DYNAMIC("operation 13", [](Writer& w) { w.expressions[0].op = static_cast<ExpressionOp>(13); });
  DYNAMIC("expressions before it", [](Writer& w) { w.expressions[4].a = 4; });
  DYNAMIC("symbol 3 lies outside", [](Writer& w) { w.expressions[0].a = 3; });
  DYNAMIC("does not use", [](Writer& w) { w.expressions[1].b = 1; });
  DYNAMIC("overflows or divides by zero", [](Writer& w) { w.expressions[1].constant = INT64_MAX; });
  DYNAMIC("dynamic number 0: expression 1 is 2, the file has 8", [](Writer& w) { w.dynamic[0].expression = 1; });
  DYNAMIC("kind 9", [](Writer& w) { w.dynamic[0].kind = static_cast<DynamicKind>(9); });
  DYNAMIC("has no record 99999", [](Writer& w) { w.dynamic[0].index = 99999; });
  DYNAMIC("two dynamic numbers", [](Writer& w) { w.dynamic.push_back(w.dynamic[0]); });
  DYNAMIC("that may change", [](Writer& w) { w.dynamic.push_back({DynamicKind::kStorageBytes, kW, 1, 0}); });
  DYNAMIC("that may change", [](Writer& w) { w.dynamic.push_back({DynamicKind::kImmediate, 0, 1, 0}); });
  DYNAMIC("does not hold", [](Writer& w) {
    uint32_t never = w.expression(ExpressionOp::kLt, 0, 1);
    w.guards.push_back({w.string("n < 2"), never, 0});
  });
  DYNAMIC("0 bounds for 1 inputs, expected two each",
          [](Writer& w) { w.goldens.push_back({0, 0, 1, {}, {}, {}, 0, 0}); });
  DYNAMIC("method 5 lies outside", [](Writer& w) { w.goldens.push_back({5, 0, 1, {}, {}, {}, 0, 0}); });

  STATE("a second state 'total'", [](Writer& w) { w.states.push_back(w.states[0]); });
  STATE("belongs to 2 states", [](Writer& w) { w.states.push_back({w.string("other"), 0, 0, 0}); });
  STATE("belongs to 0 states", [](Writer& w) { w.states.clear(); });
  STATE("value 9 lies outside", [](Writer& w) { w.states[0].value = 9; });
  STATE("kind 1 and begins at byte 0 of a storage of space 3", [](Writer& w) { w.states[0].value = 1; });
  STATE("initial bytes 64 + 16", [](Writer& w) { w.states[0].initial = 64; });
  STATE("initial bytes 8 + 16", [](Writer& w) { w.states[0].initial = 8; });
  STATE("without the flag", [](Writer& w) {
    w.states[0].flags = 0;
    w.states[0].initial = 64;
  });
  STATE("flags 0x4", [](Writer& w) { w.states[0].flags = 4; });
  STATE("its storage has 32 bytes, its elements 16", [](Writer& w) { w.storages[0].bytes = 32; });
  STATE("overlaps", [](Writer& w) {
    uint32_t storage = w.storage(Space::kState, 16);
    w.states.push_back({w.string("other"), w.value("o", ValueKind::kState, storage, {4}, {1}), 0, 0});
  });
}

// Expressions that are fine for the sizes of the file, but lead out of memory for others.
void test_sizes_that_lead_out_of_bounds() {
  Writer w = dynamic_sample(true);
  // The bias, of 2 elements, seen as [n, n - 6].
  uint32_t six = w.constant(6), less = w.expression(ExpressionOp::kSub, 0, six);
  uint32_t sizes = w.operands[5].sizes;
  w.follows(DynamicKind::kInteger, sizes + 1, less);
  CHECK_EQ(problems_of(w.build()), "");
  Loaded program(w);
  std::vector<float> x = ramp(24), y(16);
  CHECK_EQ(program.run(x, y, {8, 3}, {8, 2}), ATALLA_OK);
  FAILS(program.run(ramp(9), y, {3, 3}, {3, 2}), ATALLA_ERR_FORMAT, "with n = 3", "size -3");
  Writer far = dynamic_sample(true);
  uint32_t fifty = far.constant(50), eight = far.constant(8), back = far.expression(ExpressionOp::kSub, eight, 0);
  uint32_t away = far.expression(ExpressionOp::kMul, back, fifty);
  far.follows(DynamicKind::kOperandOffset, 2, away);
  Loaded other(far);
  CHECK_EQ(other.run(x, y, {8, 3}, {8, 2}), ATALLA_OK);
  FAILS(other.run(ramp(9), y, {3, 3}, {3, 2}), ATALLA_ERR_FORMAT, "operand 2");
}

void test_states() {
  Loaded program(state_sample());
  std::vector<float> x = {1, 1, 1, 1}, y(4), state(4);
  using V = std::vector<float>;
  auto read = [&] {
    CHECK_EQ(atalla_program_read_state(program.handle, "total", state.data(), 16), ATALLA_OK);
    return state;
  };
  CHECK(read() == (V{1, 2, 3, 4}));
  CHECK_EQ(program.run(x, y, {4}, {4}), ATALLA_OK);
  CHECK(y == (V{2, 3, 4, 5}));
  CHECK_EQ(program.run(x, y, {4}, {4}), ATALLA_OK);
  CHECK(y == (V{3, 4, 5, 6}) && read() == y);
  CHECK_EQ(program.run(x, y, {4}, {4}, 1), ATALLA_OK);  // the other method sees it
  CHECK(y == (V{4, 5, 6, 7}) && read() == (V{3, 4, 5, 6}));
  V given = {10, 20, 30, 40};
  CHECK_EQ(atalla_program_write_state(program.handle, "total", given.data(), 16), ATALLA_OK);
  CHECK_EQ(program.run(x, y, {4}, {4}, 1), ATALLA_OK);
  CHECK(y == (V{11, 21, 31, 41}));
  CHECK_EQ(atalla_program_reset_state(program.handle), ATALLA_OK);
  CHECK(read() == (V{1, 2, 3, 4}));
  FAILS(atalla_program_read_state(program.handle, "totals", state.data(), 16), ATALLA_ERR_ARGUMENT, "no state");
  FAILS(atalla_program_read_state(program.handle, "total", state.data(), 8), ATALLA_ERR_ARGUMENT, "16 bytes, not 8");
  const char* name = nullptr;
  atalla_tensor type;
  CHECK_EQ(atalla_program_state(program.handle, 0, &name, &type), ATALLA_OK);
  CHECK(std::string(name) == "total" && type.ndim == 1 && type.sizes[0] == 4);
  FAILS(atalla_program_state(program.handle, 1, &name, &type), ATALLA_ERR_ARGUMENT, "state 1");
  uint32_t method = 9;
  CHECK_EQ(atalla_program_find_method(program.handle, "peek", &method), ATALLA_OK);
  CHECK_EQ(method, 1u);
  FAILS(atalla_program_find_method(program.handle, "decode", &method), ATALLA_ERR_ARGUMENT, "'step', 'peek'");
  Writer zeros = state_sample();
  zeros.states[0].flags = 0;
  Loaded from_zero(zeros);
  CHECK_EQ(from_zero.run(x, y, {4}, {4}), ATALLA_OK);
  CHECK(y == x);
}

Writer named_weights() {
  Writer w = linear_sample();
  w.values[1].fqn = w.string("fc.weight");
  w.values[2].fqn = w.string("fc.bias");
  w.metadata.push_back({w.string("folded"), w.string("bn.weight\nbn.bias")});
  return w;
}

void test_replacement() {
  Loaded program(named_weights());
  std::vector<float> x = ramp(12), y(8), bias = {100, 200}, weight(6, 0.f);
  auto replace = [&](std::initializer_list<atalla_replacement> list) {
    return atalla_program_replace(program.handle, list.begin(), list.size());
  };
  atalla_replacement b{"fc.bias", bias.data(), 8, 0, 0}, w{"fc.weight", weight.data(), 24, 0, 0};
  for (int round = 0; round < 4; ++round) {  // the two buffers take turns
    bias = {100.f + static_cast<float>(round), 200};
    CHECK_EQ(replace({b, w}), ATALLA_OK);
    CHECK_EQ(program.run(x, y, {4, 3}, {4, 2}), ATALLA_OK);
    for (size_t i = 0; i < 8; ++i) CHECK_EQ(y[i], 2 * bias[i % 2]);
  }
  weight = sample_weight();
  bias = sample_bias();
  CHECK_EQ(replace({w, b}), ATALLA_OK);
  CHECK_EQ(program.run(x, y, {4, 3}, {4, 2}), ATALLA_OK);
  CHECK(y == expected_rows(x));
  b.bytes = 12;
  FAILS(replace({w, b}), ATALLA_ERR_ARGUMENT, "'fc.bias' has 12 bytes, expected 8");
  b.bytes = 8;
  FAILS(replace({b, b}), ATALLA_ERR_ARGUMENT, "given twice");
  b.name = "nothing";
  FAILS(replace({b}), ATALLA_ERR_ARGUMENT, "no parameter or buffer is named 'nothing'");
  b.name = "bn.bias";
  FAILS(replace({b}), ATALLA_ERR_ARGUMENT, "'bn.bias' was folded");
  const char* name = nullptr;
  atalla_tensor type;
  CHECK_EQ(atalla_program_parameter(program.handle, 1, &name, &type), ATALLA_OK);
  CHECK(std::string(name) == "fc.bias" && type.sizes[0] == 2);
  FAILS(atalla_program_parameter(program.handle, 2, &name, &type), ATALLA_ERR_ARGUMENT, "parameter 2");
  CHECK_EQ(program.run(x, y, {4, 3}, {4, 2}), ATALLA_OK);
  CHECK(y == expected_rows(x));  // the failed calls changed nothing
}

// Runs see all of one set of parameters, never a mix: with weight = bias = c, every output is 2 * (c * sum(x) + c).
void test_replacement_is_atomic() {
  Loaded program(named_weights());
  std::vector<float> x(12, 1.f);
  auto set = [&](float c) {
    std::vector<float> weight(6, c), bias(2, c);
    atalla_replacement both[] = {{"fc.weight", weight.data(), 24, 0, 0}, {"fc.bias", bias.data(), 8, 0, 0}};
    return atalla_program_replace(program.handle, both, 2);
  };
  CHECK_EQ(set(1), ATALLA_OK);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 2; i < 200; ++i) CHECK_EQ(set(static_cast<float>(i)), ATALLA_OK);
    stop = true;
  });
  std::vector<std::thread> readers;
  std::atomic<int> mixed{0}, runs{0};
  for (int t = 0; t < 2; ++t)
    readers.emplace_back([&] {
      std::vector<float> y(8);
      do {
        if (program.run(x, y, {4, 3}, {4, 2}) != ATALLA_OK) ++mixed;
        float c = y[0] / 8;
        mixed += c != static_cast<float>(static_cast<int>(c)) || std::count(y.begin(), y.end(), y[0]) != 8;
        ++runs;
      } while (!stop);
    });
  writer.join();
  for (std::thread& reader : readers) reader.join();
  CHECK_EQ(mixed.load(), 0);
  CHECK(runs > 1);
}

// Different sizes from several threads, each with its own results; more sizes than images are kept.
void test_sizes_from_threads() {
  Loaded program(dynamic_sample(false));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 60; ++i) {
        int64_t rows = 1 + (i * 7 + t * 11) % 40;
        std::vector<float> x = ramp(static_cast<size_t>(3 * rows)), y(static_cast<size_t>(2 * rows));
        wrong += program.run(x, y, {rows, 3}, {rows, 2}) != ATALLA_OK || y != expected_rows(x);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

void test_goldens() {
  Writer w = dynamic_sample(true);
  std::vector<float> x(15);
  CHECK_EQ(atalla_golden_input(7, 0, ATALLA_F32, -1, 1, 15, x.data()), ATALLA_OK);
  CHECK(std::all_of(x.begin(), x.end(), [](float v) { return v >= -1 && v < 1; }));
  CHECK(*std::min_element(x.begin(), x.end()) < -0.3f && *std::max_element(x.begin(), x.end()) > 0.3f);
  auto first = static_cast<uint32_t>(w.doubles.size());
  w.doubles.insert(w.doubles.end(), {-1, 1});
  uint32_t rows = w.pool({5});
  for (float v : expected_rows(x)) w.doubles.push_back(static_cast<double>(v));
  w.goldens.push_back({0, 0, 7, {first, 2}, {rows, 1}, {first + 2, 10}, 1e-5, 1e-5});
  Loaded program(w);
  uint32_t count = 0;
  if (!CHECK_EQ(atalla_program_verify(program.handle, &count), ATALLA_OK))
    std::fprintf(stderr, "%s\n", atalla_rt_last_error());
  CHECK_EQ(count, 1u);
  w.doubles[first + 5] += 0.01;
  Loaded wrong(w);
  FAILS(atalla_program_verify(wrong.handle, nullptr), ATALLA_ERR_FORMAT,
        "golden 0, method 'forward', output 0, element 3: ", "expected");
  w.goldens[0].samples.count = 9;
  Loaded fewer(w);
  FAILS(atalla_program_verify(fewer.handle, nullptr), ATALLA_ERR_FORMAT, "golden 0 has 9 numbers");
  std::vector<int64_t> ids(1000);
  CHECK_EQ(atalla_golden_input(3, 1, ATALLA_I64, 0, 9, 1000, ids.data()), ATALLA_OK);
  CHECK(*std::min_element(ids.begin(), ids.end()) == 0 && *std::max_element(ids.begin(), ids.end()) == 9);
}

// Half-precision inputs of goldens are the nearest numbers of the dtype.
void test_golden_dtypes() {
  std::vector<double> wide(200);
  std::vector<uint16_t> half(200), brain(200);
  CHECK_EQ(atalla_golden_input(5, 0, ATALLA_F64, -3, 3, 200, wide.data()), ATALLA_OK);
  CHECK_EQ(atalla_golden_input(5, 0, ATALLA_F16, -3, 3, 200, half.data()), ATALLA_OK);
  CHECK_EQ(atalla_golden_input(5, 0, ATALLA_BF16, -3, 3, 200, brain.data()), ATALLA_OK);
  for (size_t i = 0; i < wide.size(); ++i) {
    int e = 0;
    std::frexp(wide[i], &e);
    auto value = [&](uint16_t bits, int mantissa, int bias) {
      int exponent = (bits & 0x7FFF) >> mantissa;
      double fraction = exponent ? 1 + std::ldexp(bits & ((1 << mantissa) - 1), -mantissa)
                                 : std::ldexp(bits & ((1 << mantissa) - 1), 1 - mantissa);
      return std::ldexp(fraction, exponent - bias) * (bits & 0x8000 ? -1 : 1);
    };
    CHECK(std::fabs(value(half[i], 10, 15) - wide[i]) <= std::ldexp(0.5, e - 11) + 0x1p-25);
    CHECK(std::fabs(value(brain[i], 7, 127) - wide[i]) <= std::ldexp(0.5, e - 8));
  }
}

void body() {
  test_dynamic_runs();
  test_divisible();
  test_guard();
  test_validation();
  test_sizes_that_lead_out_of_bounds();
  test_states();
  test_replacement();
  test_replacement_is_atomic();
  test_sizes_from_threads();
  test_goldens();
  test_golden_dtypes();
}

}  // namespace

int main(int argc, char**) { return driver_test::run_in_all_modes(argc, body); }
