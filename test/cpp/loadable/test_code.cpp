// SPDX-License-Identifier: BSD-3-Clause
//
// Atalla code: each rule of its records, and runs on both engines, which share the states.
#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "driver/support.h"
#include "loadable/samples.h"
#include "runtime/c_api/atalla.hpp"

using namespace loadable_test;

namespace {

int line_of_case = 0;

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// The change must be found, with a text that contains `part`.
void spoiled(const char* part, const std::function<void(Writer&)>& change) {
  Writer w = code_sample();
  change(w);
  const std::string text = problems_of(w.build());
  check::note(contains(text, part), __FILE__, line_of_case,
              "expected \"" + std::string(part) + "\", found \"" + text + "\"");
}
#define SPOILED(...) (line_of_case = __LINE__, spoiled(__VA_ARGS__))

void test_records() {
  CHECK_EQ(problems_of(code_sample().build()), "");
  SPOILED("code 1: method 2 lies outside the 2 records", [](Writer& w) { w.code[1].method = 2; });
  SPOILED("code 1: method 0 has code 0 already", [](Writer& w) { w.code[1].method = 0; });
  SPOILED("code 0: version 3, expected 1 or 2", [](Writer& w) { w.code[0].version = 3; });
  SPOILED("code, but instruction set version 0", [](Writer& w) { w.header.isa_version = 0; });
  SPOILED("code 0: no packet", [](Writer& w) { w.code[0].packets = {}; });
  SPOILED("code 1: packets 21 + 22 lie outside the 42 records of PACKETS",
          [](Writer& w) { ++w.code[1].packets.count; });
  SPOILED("code 1: packets 20 + 21 belong to code 0, too", [](Writer& w) { --w.code[1].packets.first; });
  SPOILED("packet 42 belongs to no code", [](Writer& w) { w.packets.emplace_back(); });
  SPOILED("code 1: words 8 + 7 lie outside", [](Writer& w) { ++w.code[1].words.first; });
  SPOILED("code 1: words 0 + 7 belong to code 0, too", [](Writer& w) { w.code[1].words.first = 0; });
  SPOILED("code word 6 belongs to no code", [](Writer& w) { --w.code[0].words.count; });
  SPOILED("code 0: relocations 4294967295 + 6 lie outside", [](Writer& w) { w.code[0].relocations.first = kNone; });
  SPOILED("code 1: relocations 5 + 6 belong to code 0, too", [](Writer& w) { --w.code[1].relocations.first; });
  SPOILED("relocation 12 belongs to no code", [](Writer& w) { w.relocations.emplace_back(); });
  SPOILED("code 0: arena of 4294967296 bytes", [](Writer& w) { w.code[0].arena_bytes = uint64_t{1} << 32; });
  const auto calls = [](std::vector<int64_t> numbers) {
    return [numbers](Writer& w) {
      w.code[1].calls = {static_cast<uint32_t>(w.integers.size()), static_cast<uint32_t>(numbers.size())};
      w.integers.insert(w.integers.end(), numbers.begin(), numbers.end());
    };
  };
  SPOILED("code 1: calls 4294967295 + 3 lie outside", [](Writer& w) { w.code[1].calls = {kNone, 3}; });
  SPOILED("code 1: 4 numbers for calls, a multiple of 3 expected", calls({0, 0, 0, 0}));
  SPOILED("code 1: call 0 of 0x1, which is no packet", calls({1, 0, 0}));
  SPOILED("code 1: call 1 of 0x1a4, which is no packet", calls({0, 0, 0, 420, 0, 0}));
  SPOILED("code 1: call 0 for core 64, -1 to 63 expected", calls({0, 64, 0}));
  SPOILED("code 1: call 0 for core -2", calls({0, -2, 0}));
  SPOILED("code 1: call 0 for instruction 9 of", calls({0, 0, 9}));
  SPOILED("code 1: call 0 for instruction -1 of", calls({0, 0, -1}));
  SPOILED("stride 24, expected 20", [](Writer& w) {
    w.packets.clear();
    w.extra.push_back({28, 0, 24, Bytes(1008)});
  });
}

void test_sizes() {
  CHECK_EQ(problems_of(sized_code_sample().build()), "");
  auto sized = [](const char* part, const std::function<void(Writer&)>& change) {
    Writer w = sized_code_sample();
    change(w);
    const std::string text = problems_of(w.build());
    check::note(contains(text, part), __FILE__, line_of_case,
                "expected \"" + std::string(part) + "\", found \"" + text + "\"");
  };
#define SIZED(...) (line_of_case = __LINE__, sized(__VA_ARGS__))
  SIZED("code 2: 0 values for the 1 symbols of method 0", [](Writer& w) { w.code[2].symbols = {}; });
  SIZED("code 2: 2 values for the 1 symbols of method 0", [](Writer& w) {
    w.code[2].symbols.count = 2;
    w.integers.push_back(1);
  });
  SIZED("code 6: symbols 4294967295 + 1 lie outside", [](Writer& w) { w.code[6].symbols.first = kNone; });
  SIZED("code 3: method 0 has code for these values of its symbols already",
        [](Writer& w) { w.code[3].symbols = w.code[2].symbols; });
  SIZED("symbol 0 is 9, expected 1 to 8", [](Writer& w) { w.integers[w.code[3].symbols.first] = 9; });
  SIZED("code 4: packets 1 + 20 belong to code 0, too", [](Writer& w) { w.code[4].packets = {1, 20}; });
  SIZED("offset 97 in index 0 of region 3, which has 96 bytes", [](Writer& w) {
    w.symbols.clear();
    w.dynamic.clear();
    w.expressions.clear();
    w.code.resize(1);
    w.code[0].symbols = {};
    w.code_words.resize(7);
    w.relocations.resize(6);
    w.relocations[0].offset = 97;
  });
  SPOILED("code 0: 1 values for the 0 symbols of method 0", [](Writer& w) { w.code[0].symbols = {0, 1}; });
#undef SIZED
}

void test_relocations() {
  SPOILED("relocation 7: word 7 of a table of 7 words", [](Writer& w) { w.relocations[7].word = 7; });
  SPOILED("relocation 7: word 0 of the table is relocated twice", [](Writer& w) { w.relocations[7].word = 0; });
  SPOILED("region 6, expected 0 to 5", [](Writer& w) { w.relocations[0].region = static_cast<Region>(6); });
  SPOILED("reserved", [](Writer& w) { w.relocations[0].reserved = 1; });
  SPOILED("index 1 of region 3, of which method 0 has 1", [](Writer& w) { w.relocations[0].index = 1; });
  SPOILED("index 1 of region 5, of which method 0 has 1", [](Writer& w) { w.relocations[1].index = 1; });
  SPOILED("index 1 of region 1, of which method 0 has 1", [](Writer& w) { w.relocations[4].index = 1; });
  SPOILED("offset 17 in index 0 of region 3, which has 16 bytes", [](Writer& w) { w.relocations[0].offset = 17; });
  SPOILED("offset 17 in index 0 of region 5, which has 16 bytes", [](Writer& w) { w.relocations[1].offset = 17; });
  SPOILED("offset 17 in index 0 of region 4, which has 16 bytes", [](Writer& w) { w.relocations[3].offset = 17; });
  SPOILED("offset 9 in index 0 of region 1, which has 8 bytes", [](Writer& w) { w.relocations[4].offset = 9; });
  SPOILED("offset 29 in index 0 of region 0, which has 28 bytes", [](Writer& w) { w.relocations[5].offset = 29; });
  SPOILED("offset 17 in index 0 of region 2, which has 16 bytes", [](Writer& w) { w.relocations[8].offset = 17; });
  Writer end = code_sample();
  end.relocations[0].offset = 16;  // the end of a region is legal
  CHECK_EQ(problems_of(end.build()), "");
}

using Values = std::vector<float>;

Values run(atalla::Program& program, const char* method, const Values& x) {
  const auto y = program.run({atalla::Tensor::of({4}, x.data())}, method);
  return {y[0].data<float>(), y[0].data<float>() + 4};
}

Values total(const atalla::Program& program) {
  Values values(4);
  program.read_state("total", values.data(), 16);
  return values;
}

// Fails with this status and a text that contains `part`.
template <class F>
void fails(atalla_status status, const char* part, int line, F&& call) {
  std::string text = "no error";
  try {
    call();
  } catch (const atalla::Error& error) {
    text = error.what();
    if (error.status() == status && contains(text, part)) return;
  }
  check::note(false, __FILE__, line, "expected \"" + std::string(part) + "\", found \"" + text + "\"");
}
#define FAILS(status, part, ...) fails((status), (part), __LINE__, [&] { __VA_ARGS__; })

constexpr uint32_t kBoth = ATALLA_ENGINE_FUNCTIONAL | ATALLA_ENGINE_ISA;

void test_runs_of_sizes() {
  const Bytes file = sized_code_sample().build();
  atalla::Program program(file.data(), file.size());
  program.load(0, ATALLA_ENGINE_ISA);
  Values x(27);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 1;
  auto rows = [&](int64_t n) {
    const auto y = program.run({atalla::Tensor::of({n, 3}, x.data())}, "forward");
    CHECK(y[0].shape() == (std::vector<int64_t>{n, 2}));
    const auto count = static_cast<size_t>(2 * n);
    CHECK(Values(y[0].data<float>(), y[0].data<float>() + count) == Values(x.begin(), x.begin() + 2 * n));
    return program.stats().packets;
  };
  const uint64_t one = rows(1);
  for (int64_t n : {8, 3, 4, 2, 6, 7, 3}) CHECK_EQ(rows(n) - one, 12u * (2 * static_cast<uint64_t>(n) - 2));
  FAILS(ATALLA_ERR_UNSUPPORTED, "has no Atalla code for these sizes; use the functional engine", rows(5));
  FAILS(ATALLA_ERR_ARGUMENT, "dimension 0 is 9, expected 1 to 8", rows(9));
  Writer behind = sized_code_sample();
  behind.relocations[0].offset = 13;  // legal for the 96 bytes of 8 rows
  const Bytes moved = behind.build();
  atalla::Program other(moved.data(), moved.size());
  other.load(0, ATALLA_ENGINE_ISA);
  FAILS(ATALLA_ERR_FORMAT, "relocation 0 has the offset 13 in an input or output of 12 bytes",
        other.run({atalla::Tensor::of({1, 3}, x.data())}, "forward"));
}

void test_engines_share_states() {
  const Bytes file = code_sample().build();
  atalla::Program program(file.data(), file.size());
  program.load(0, kBoth);
  const Values x = {1, 2, 3, 4};
  CHECK(run(program, "step", x) == (Values{2, 4, 6, 8}));
  CHECK_EQ(program.stats().packets, 0u);
  program.set_engine(ATALLA_ENGINE_ISA);
  CHECK(run(program, "step", x) == (Values{3, 6, 9, 12}));
  const atalla_isa_stats stats = program.stats();
  CHECK_EQ(stats.packets, 8u + 4 * 12 + 1);
  CHECK(stats.cycles > stats.packets);
  CHECK_EQ(stats.branches_taken, 3u);
  CHECK(run(program, "peek", x) == (Values{4, 8, 12, 16}));
  CHECK(total(program) == (Values{3, 6, 9, 12}));
  program.set_engine(ATALLA_ENGINE_FUNCTIONAL);
  CHECK(run(program, "peek", x) == (Values{4, 8, 12, 16}));
  CHECK(run(program, "step", x) == (Values{4, 8, 12, 16}));
  program.set_engine(ATALLA_ENGINE_ISA);
  const Values other = {10, 20, 30, 40};
  program.write_state("total", other.data(), 16);
  CHECK(run(program, "peek", x) == (Values{11, 22, 33, 44}));
  program.reset_state();
  CHECK(total(program) == x);
  CHECK(run(program, "step", x) == (Values{2, 4, 6, 8}));
  CHECK_EQ(std::string(atalla_isa_unit_name(0)).empty(), false);
  CHECK(atalla_isa_stall_name(1000) == nullptr);
}

// Launches take what their code takes.
void test_charges() {
  const auto cycles = [](const Writer& w, uint32_t engine) {
    const Bytes file = w.build();
    atalla::Program program(file.data(), file.size());
    program.load(0, kBoth);
    if (engine == ATALLA_ENGINE_FUNCTIONAL) return program.estimate();
    program.set_engine(ATALLA_ENGINE_ISA);
    run(program, "step", {1, 2, 3, 4});
    return program.stats().cycles;
  };
  Writer w = code_sample();
  const uint64_t model = cycles(w, ATALLA_ENGINE_FUNCTIONAL), code = cycles(w, ATALLA_ENGINE_ISA);
  CHECK(model != code);
  w.code[0].calls = {static_cast<uint32_t>(w.integers.size()), 3};
  w.integers.insert(w.integers.end(), {0, 0, 0});
  CHECK_EQ(cycles(w, ATALLA_ENGINE_FUNCTIONAL), code);
  w.relocations[0].offset = 16;  // the code reads behind its input
  w.code_words[6] = 1u << 30;
  CHECK_EQ(cycles(w, ATALLA_ENGINE_FUNCTIONAL), model);  // it faults
}

void test_code_alone() {
  const Bytes file = code_sample().build();
  atalla::Program program(file.data(), file.size());
  program.load(0, ATALLA_ENGINE_ISA);
  CHECK_EQ(program.method_info(1).packets, 21u);
  CHECK_EQ(program.method_info(1).code_arena_bytes, 16u);
  CHECK_EQ(program.info().constant_bytes, 8u);
  CHECK(contains(program.describe(), R"("packets": [21, 21])"));
  const Values x = {1, 2, 3, 4};
  CHECK(run(program, "step", x) == (Values{2, 4, 6, 8}));
  CHECK(run(program, "step", x) == (Values{3, 6, 9, 12}));
  FAILS(ATALLA_ERR_ARGUMENT, "was loaded for the engine isa only", program.set_engine(ATALLA_ENGINE_FUNCTIONAL));
  FAILS(ATALLA_ERR_UNSUPPORTED, "are not estimated", program.estimate());
  program.set_engine(ATALLA_ENGINE_ISA, 10);
  FAILS(ATALLA_ERR_FAULT_KERNEL, "method 'step'", run(program, "step", x));
  CHECK_EQ(program.stats().packets, 0u);
  program.set_engine(ATALLA_ENGINE_ISA, 57);
  CHECK(run(program, "peek", x).size() == 4);
  atalla::Tensor wide = atalla::Tensor::of({4}, x.data());
  wide.strides[0] = 2;
  FAILS(ATALLA_ERR_ARGUMENT, "input 0 'x' has strides [2], expected [1]", program.run({wide}));
  FAILS(ATALLA_ERR_ARGUMENT, "0 inputs given, expected 1", program.run({}));
}

void test_code_only() {
  Writer w = code_only_sample();
  const Bytes file = w.build();
  CHECK_EQ(problems_of(file), "");
  atalla::Program program(file.data(), file.size());
  program.load(0, kBoth);
  const Values x = {1, 2, 3, 4};
  FAILS(ATALLA_ERR_UNSUPPORTED, "method 'step' has only Atalla code; use the engine isa", run(program, "step", x));
  program.set_engine(ATALLA_ENGINE_ISA);
  CHECK(run(program, "step", x) == (Values{2, 4, 6, 8}));
  w.code.pop_back();
  w.packets.resize(21), w.code_words.resize(7), w.relocations.resize(6);
  CHECK(contains(problems_of(w.build()), "storage 4 is never written"));
}

void test_what_cannot_run() {
  const Bytes plain = state_sample().build();
  atalla::Program none(plain.data(), plain.size());
  FAILS(ATALLA_ERR_UNSUPPORTED, "has no Atalla code", none.load(0, ATALLA_ENGINE_ISA));
  FAILS(ATALLA_ERR_ARGUMENT, "engines 4, expected bits of atalla_engine", none.load(0, 4));
  none.load(0);
  FAILS(ATALLA_ERR_ARGUMENT, "was loaded for the functional engine only", none.set_engine(ATALLA_ENGINE_ISA));

  Writer one = code_sample();  // the first method alone
  one.code.pop_back();
  one.packets.resize(21), one.code_words.resize(7), one.relocations.resize(6);
  const Bytes file = one.build();
  atalla::Program program(file.data(), file.size());
  program.load(0, kBoth);
  program.set_engine(ATALLA_ENGINE_ISA);
  const Values x = {1, 2, 3, 4};
  FAILS(ATALLA_ERR_UNSUPPORTED, "method 'peek' has no Atalla code; use the functional engine", run(program, "peek", x));
  FAILS(ATALLA_ERR_ARGUMENT, "engine 3, expected one of", program.set_engine(static_cast<atalla_engine>(3)));
  const atalla_replacement item{"w", x.data(), 16, 0, 0};
  FAILS(ATALLA_ERR_ARGUMENT, "no parameter or buffer is named 'w'", program.replace({item}));

  Writer wrong = code_sample();
  wrong.code_words[6] = 0x1000000;  // elements: beyond the DRAM, with time
  wrong.relocations[3].offset = 1;  // and not aligned before that
  const Bytes bad = wrong.build();
  atalla::Program faulty(bad.data(), bad.size());
  faulty.load(0, ATALLA_ENGINE_ISA);
  for (int i = 0; i < 2; ++i) FAILS(ATALLA_ERR_FAULT_KERNEL, "method 'step'", run(faulty, "step", x));
  CHECK(run(faulty, "peek", x).size() == 4);  // the stream goes on
}

void test_goldens() {
  Writer w = code_sample();
  auto first = static_cast<uint32_t>(w.doubles.size());
  w.doubles.insert(w.doubles.end(), {1, 1, 2, 3, 4, 5});  // all ones
  for (uint32_t method : {0u, 1u}) w.goldens.push_back({method, 0, 7, {first, 2}, {}, {first + 2, 4}, 0, 0});
  Bytes file = w.build();
  atalla::Program program(file.data(), file.size());
  program.load(0, kBoth);
  CHECK_EQ(program.verify(), 2u);
  CHECK_EQ(program.stats().packets, 0u);
  program.set_engine(ATALLA_ENGINE_ISA);
  CHECK_EQ(program.verify(), 2u);
  CHECK_EQ(program.stats().packets, 57u);
  w.code_words[6] = 3;  // one element less
  file = w.build();
  atalla::Program wrong(file.data(), file.size());
  wrong.load(0, ATALLA_ENGINE_ISA);
  FAILS(ATALLA_ERR_FORMAT, "method 'step', output 0, element 3", wrong.verify());
}

// Code beside programs that keep values in the scratchpads from launch to launch.
void test_threads() {
  const Bytes code = code_sample().build(), resident = resident_sample().build();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      const Bytes& file = i % 2 == 0 ? code : resident;
      atalla::Program program(file.data(), file.size());
      program.load(0, i % 2 == 0 ? ATALLA_ENGINE_ISA : ATALLA_ENGINE_FUNCTIONAL);
      int wrong = 0;
      for (int k = 1; k <= 100; ++k) {
        if (i % 2 == 0) {
          const auto n = static_cast<float>(k + 1);
          wrong += run(program, "step", {1, 2, 3, 4}) != Values{n, 2 * n, 3 * n, 4 * n};
          continue;
        }
        const Values x(12, static_cast<float>(k));
        const auto y = program.run({atalla::Tensor::of({4, 3}, x.data())});
        wrong += y[0].data<float>()[7] != 2 * (20 + static_cast<float>(k) * 5);
      }
      CHECK_EQ(wrong, 0);
    });
  for (std::thread& thread : threads) thread.join();
}

void body() {
  test_records();
  test_relocations();
  test_sizes();
  test_runs_of_sizes();
  test_engines_share_states();
  test_charges();
  test_code_alone();
  test_code_only();
  test_what_cannot_run();
  test_goldens();
  test_threads();
}

void test_device_without_code() {
  const Bytes file = code_sample().build();
  atalla::Program program(file.data(), file.size());
  FAILS(ATALLA_ERR_UNSUPPORTED, "the device library of atalla:0 runs no Atalla code",
        program.load(0, ATALLA_ENGINE_ISA));
  CHECK(atalla_isa_unit_name(0) == nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--fake") return driver_test::run(test_device_without_code);
  if (argc > 1) return driver_test::run(body);
  driver_test::run_modes("simulator");
  driver_test::use_fake_library();
  CHECK_EQ(driver_test::run_self("--fake"), 0);
  return check_report();
}
