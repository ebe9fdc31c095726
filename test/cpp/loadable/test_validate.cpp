// SPDX-License-Identifier: BSD-3-Clause
//
// Rules about records and the memory plan: each test spoils one thing of a good program.
#include <functional>
#include <string>

#include "check.h"
#include "loadable/samples.h"

using namespace loadable_test;

namespace {

int line_of_case = 0;

// The change must be found, with a text that contains `part`.
void spoiled(const char* part, const std::function<void(Writer&)>& change, Writer w = linear_sample()) {
  change(w);
  std::string text = problems_of(w.build());
  check::note(text.find(part) != std::string::npos, __FILE__, line_of_case,
              "expected \"" + std::string(part) + "\", found \"" + text + "\"");
}
#define SPOILED(...) (line_of_case = __LINE__, spoiled(__VA_ARGS__))

void test_strings() {
  SPOILED("names no string", [](Writer& w) { w.kernels[0].name = {100000, 4}; });
  SPOILED("names no string", [](Writer& w) { w.kernels[0].name.bytes = ~0u; });
  SPOILED("names no string", [](Writer& w) { w.kernels[0].name.bytes -= 1; });
  SPOILED("names no string", [](Writer& w) { w.kernels[0].name.offset += 1; });
  SPOILED("does not end with a zero byte", [](Writer& w) { w.strings += "x"; });
  SPOILED("is not UTF-8", [](Writer& w) { w.string("\xC0\x80"); });
  SPOILED("is not UTF-8", [](Writer& w) { w.string("\xED\xA0\x80"); });
  Writer w = linear_sample();
  w.string(
      "gr\xC3\xB6\xC3\x9F"
      "e \xF0\x9F\x90\x8D");
  CHECK_EQ(problems_of(w.build()), "");
  SPOILED("has no name", [](Writer& w) { w.kernels[0].name = {}; });
}

void test_references() {
  SPOILED("value 0: storage 6 lies outside the 6 records", [](Writer& w) { w.values[0].storage = 6; });
  SPOILED("storage 4294967295 lies outside", [](Writer& w) { w.operands[0].storage = kNone; });
  SPOILED("operand 0: value 99", [](Writer& w) { w.operands[0].value = 99; });
  SPOILED("value 0: sizes", [](Writer& w) { w.values[0].sizes = ~0u - 1; });
  SPOILED("value 0: strides", [](Writer& w) { w.values[0].strides = 1000; });
  SPOILED("value 0: node 3", [](Writer& w) { w.values[0].node = 3; });
  SPOILED("kernel 2 lies outside the 2 records", [](Writer& w) { w.instructions[0].callee = 2; });
  SPOILED("operands 4294967295 + 4294967295", [](Writer& w) { w.instructions[1].operands = {~0u, ~0u}; });
  SPOILED("iparams", [](Writer& w) { w.instructions[0].iparams = {0, 100000}; });
  SPOILED("fparams", [](Writer& w) { w.instructions[0].fparams = {3, 2}; });
  SPOILED("13 iparams, at most 12", [](Writer& w) { w.instructions[0].iparams = {0, 13}; });
  SPOILED("host call 0 lies outside", [](Writer& w) { w.instructions[0].kind = InstructionKind::kHostCall; });
  SPOILED("input 0: value 6", [](Writer& w) { w.inputs[0].value = 6; });
  SPOILED("guards", [](Writer& w) { w.inputs[0].guards = 100000; });
  SPOILED("node 1: segment 1", [](Writer& w) { w.nodes[1].segment = 1; });
  SPOILED("segment 0: instructions 0 + 4", [](Writer& w) { w.segments[0].instructions.count = 4; });
  SPOILED("method 0: inputs 1 + 1", [](Writer& w) { w.methods[0].inputs.first = 1; });
  SPOILED("no method", [](Writer& w) {
    w.methods.clear();
    w.extra.push_back({14, 0, 64, {}});
  });
}

void test_enumerators() {
  SPOILED("space 6", [](Writer& w) { w.storages[0].space = static_cast<Space>(6); });
  SPOILED("dtype code 8", [](Writer& w) { w.values[0].dtype = 8; });
  SPOILED("dtype code 200", [](Writer& w) { w.operands[0].dtype = 200; });
  SPOILED("compute dtype code 12", [](Writer& w) { w.instructions[0].compute_dtype = 12; });
  SPOILED("kind 9", [](Writer& w) { w.instructions[0].kind = static_cast<InstructionKind>(9); });
  SPOILED("kind 3, expected 0 to 2", [](Writer& w) { w.operands[0].kind = static_cast<OperandKind>(3); });
  SPOILED("does not go with", [](Writer& w) { w.values[0].kind = ValueKind::kOutput; });
  SPOILED("does not go with", [](Writer& w) { w.values[0].kind = static_cast<ValueKind>(0); });
  SPOILED("native is 2", [](Writer& w) { w.nodes[0].native = 2; });
  SPOILED("segment 0: kind 0", [](Writer& w) { w.segments[0].kind = static_cast<SegmentKind>(0); });
  SPOILED("13 dimensions", [](Writer& w) { w.values[0].ndim = 13; });
  SPOILED("255 dimensions", [](Writer& w) { w.operands[2].ndim = 255; });
}

void test_reserved() {
  SPOILED("kernel 1: reserved", [](Writer& w) { w.kernels[1].reserved = 1; });
  SPOILED("storage 2: reserved", [](Writer& w) { w.storages[2].reserved[6] = 1; });
  SPOILED("operand 0: reserved", [](Writer& w) { w.operands[0].reserved0 = 1; });
  SPOILED("input 0: flags 0x1, which it cannot have", [](Writer& w) { w.inputs[0].flags = 1; });
  SPOILED("output 0: flags 0x2, which it cannot have", [](Writer& w) { w.outputs[0].flags = 2; });
  SPOILED("immediate bytes beyond 0", [](Writer& w) { w.operands[0].immediate[15] = 1; });
  Writer w = linear_sample();
  w.kernels[1].reserved = 1;
  w.header.minor = kMinor + 1;  // newer than the driver
  CHECK_EQ(problems_of(w.build()), "");
}

void test_bounds() {
  SPOILED("reaches bytes 4 to 52 of storage 0, which has 48", [](Writer& w) { w.operands[1].byte_offset = 4; });
  SPOILED("byte offset 18446744073709551612 is out of range",
          [](Writer& w) { w.values[kX].byte_offset = ~uint64_t{3}; });
  SPOILED("byte offset 2 is not a multiple", [](Writer& w) { w.operands[2].byte_offset = 2; });
  SPOILED("size -1", [](Writer& w) { w.values[kX].sizes = w.pool({-1, 3}); });
  SPOILED("reaches bytes 0 to 64", [](Writer& w) { w.values[kX].sizes = w.pool({4, 7}); });
  SPOILED("out of range", [](Writer& w) { w.values[kX].sizes = w.pool({INT64_MAX, INT64_MAX}); });
  SPOILED("out of range", [](Writer& w) { w.values[kX].strides = w.pool({INT64_MIN, 1}); });
  SPOILED("stride -1 of dimension 1 is negative",
          [](Writer& w) { w.values[kX].strides = w.pool({3, -1}), w.values[kX].byte_offset = 8; });
  SPOILED("too many elements", [](Writer& w) {
    w.operands[1].ndim = 3;
    w.operands[1].sizes = w.pool({1 << 20, 1 << 20, 1 << 20});
    w.operands[1].strides = w.pool({0, 0, 0});
  });
  SPOILED("two elements in one place", [](Writer& w) { w.operands[0].strides = w.pool({8, 0, 1}); });
  SPOILED("two elements in one place", [](Writer& w) { w.operands[0].strides = w.pool({8, 1, 1}); });
  SPOILED("which is read only", [](Writer& w) { w.operands[0] = w.memory(kX); });
  SPOILED("output 0 is not in memory", [](Writer& w) { w.operands[0] = Writer::immediate(1); });
  SPOILED("4 outputs, but 3 operands", [](Writer& w) { w.instructions[0].n_outputs = 4; });
  SPOILED("its storage has 52 bytes, its elements span 48", [](Writer& w) { w.storages[kX].bytes = 52; });
  SPOILED("guard [1, 9]", [](Writer& w) { w.inputs[0].guards = w.pool({1, 9, 3, 3}); });
  Writer w = linear_sample();  // a negative stride of an operand that stays inside is legal
  w.operands[1].strides = w.pool({12, 3, -1});
  w.operands[1].byte_offset = 8;
  CHECK_EQ(problems_of(w.build()), "");
  w = linear_sample();  // so is an offset behind the storage, of a tensor without elements
  w.values[kT0].sizes = w.pool({0, 4});
  w.values[kT0].byte_offset = 1 << 20;
  CHECK_EQ(problems_of(w.build()), "");
}

void test_residency() {
  auto resident = [](std::vector<Residency> records) {
    Writer w = linear_sample();
    w.residency = std::move(records);
    w.header.minor = 2;
    return problems_of(w.build());
  };
  auto refuses = [&](const char* text, std::vector<Residency> records) {
    CHECK(resident(std::move(records)).find(text) != std::string::npos);
  };
  CHECK_EQ(problems_of(resident_sample().build()), "");
  CHECK_EQ(resident({{kT0, 0, 0}, {kT1, 0, 256}}), "");
  CHECK_EQ(resident({{kT0, 0, 0}, {kT1, 1, 0}}), "");
  refuses("offset 64 is not a multiple of 256", {{kT0, 0, 64}});
  refuses("scratchpad 64, expected one below 64", {{kT0, 64, 0}});
  refuses("storage 99 lies outside", {{99, 0, 0}});
  refuses("expected 1", {{kX, 0, 0}});
  refuses("has two places in scratchpads", {{kT0, 0, 0}, {kT0, 1, 0}});
  refuses("(scratchpad bytes 0 + 32, live 1 to 2) overlaps", {{kT0, 0, 0}, {kT1, 0, 0}});
  refuses("at most 1073741824 expected", {{kT0, 0, uint64_t{1} << 40}});
  Writer w = linear_sample();
  w.instructions[0].cores = 4;
  w.header.minor = 2;
  CHECK_EQ(problems_of(w.build()), "");
  w.header.minor = 1;
  CHECK(problems_of(w.build()).find("reserved") != std::string::npos);
}

void test_memory_plan() {
  SPOILED("storage 4 (arena bytes 0 + 32, live 1 to 2) overlaps storage 3 (0 + 32, live 0 to 1)",
          [](Writer& w) { w.storages[kT1].offset = 0; });
  SPOILED("offset 16 is not a multiple of 64", [](Writer& w) { w.storages[kT1].offset = 16; });
  SPOILED("instructions 0 to 1 use it, its live range is 0 to 0", [](Writer& w) { w.storages[kT0].last_live = 0; });
  SPOILED("lie outside the arena of 64 bytes", [](Writer& w) { w.methods[0].arena_bytes = 64; });
  SPOILED("lie outside the arena", [](Writer& w) { w.storages[kT1].offset = ~uint64_t{63}; });
  SPOILED("lie outside the weights of 72 bytes", [](Writer& w) { w.storages[kB].offset = 128; });
  SPOILED("weight bytes 0 + 72) overlaps", [](Writer& w) { w.storages[kW].bytes = 72; });
  SPOILED("storage 4 is read before it is written", [](Writer& w) { w.operands[4] = w.operands[3]; });
  SPOILED("storage 3 is never written", [](Writer& w) { w.operands[0] = w.memory(4, {1, 4, 2}, {8, 2, 1}); });
  SPOILED("storage 5 is never written", [](Writer& w) { w.operands[6] = w.operands[3]; });
  SPOILED("belongs to 2 inputs or outputs", [](Writer& w) {
    w.outputs.push_back(w.outputs[0]);
    w.outputs[1].name = w.string("again");
    w.methods[0].outputs.count = 2;
  });
  SPOILED("instruction 2 belongs to no method", [](Writer& w) { w.methods[0].instructions.count = 2; });
  SPOILED("input 0 belongs to no method", [](Writer& w) { w.methods[0].inputs.count = 0; });
  Writer tied = linear_sample();
  tied.storages.push_back(tied.storages[kW]);
  CHECK_EQ(problems_of(tied.build()), "");
}

// Many storages in a ring of slots: legal as planned, and one shortened distance is found.
void test_many_storages() {
  auto ring = [](uint32_t slots) {
    Writer w;
    uint32_t n = 500;
    uint32_t in = w.storage(Space::kInput, 64), out = w.storage(Space::kOutput, 64);
    uint32_t x = w.value("x", ValueKind::kInput, in, {16}, {1});
    uint32_t y = w.value("y", ValueKind::kOutput, out, {16}, {1});
    uint32_t add = w.kernel("pointwise.add"), previous = x;
    for (uint32_t i = 0; i < n; ++i) {
      bool last = i + 1 == n;
      uint32_t next = last ? y
                           : w.value("t", ValueKind::kIntermediate,
                                     w.storage(Space::kArena, 64, i % slots * 64, i, i + 1), {16}, {1});
      w.launch(add, {w.memory(next), w.memory(previous), w.memory(x)}, {1}, {1});
      previous = next;
    }
    w.input("x", x);
    w.output("y", y);
    w.method("forward", slots * 64);
    return problems_of(w.build());
  };
  CHECK_EQ(ring(2), "");
  CHECK_EQ(ring(7), "");
  CHECK(ring(1).find("overlaps") != std::string::npos);
}

void test_host_calls() {
  Writer good = host_call_sample();
  SPOILED(
      "made a second time",
      [](Writer& w) {
        w.instructions.insert(w.instructions.begin(), w.instructions[0]);
        w.methods[0].instructions.count = 3;
        w.storages[1].last_live = 2;
      },
      good);
  SPOILED("value 99 lies outside", [](Writer& w) { w.integers[w.host_calls[0].inputs.first] = 99; }, good);
  SPOILED("which is read only", [](Writer& w) { w.host_calls[0].outputs = w.host_calls[0].inputs; }, good);
  SPOILED("outputs 0 + 5000", [](Writer& w) { w.host_calls[0].outputs = {0, 5000}; }, good);
  SPOILED("of its own", [](Writer& w) { w.instructions[0].operands = {0, 1}; }, good);
  SPOILED("is never written", [](Writer& w) { w.host_calls[0].outputs = {}; }, good);
}

void test_names() {
  SPOILED("a second method 'forward'", [](Writer& w) { w.methods.push_back(w.methods[0]); });
  SPOILED("belongs to methods 0 and 1", [](Writer& w) {
    w.methods.push_back(w.methods[0]);
    w.methods[1].name = w.string("other");
  });
  SPOILED("a second entry for 'producer'", [](Writer& w) { w.metadata.push_back(w.metadata[0]); });
}

void test_all_at_once() {
  Writer w = linear_sample();
  w.values[0].dtype = 8;
  w.operands[3].storage = 77;
  w.instructions[2].callee = 5000;
  w.kernels[1].name = {9999, 3};
  std::string text = problems_of(w.build());
  for (const char* part :
       {"4 problems", "value 0: dtype", "operand 3: storage 77", "instruction 2: kernel 5000", "kernel 1: name"})
    check::note(text.find(part) != std::string::npos, __FILE__, __LINE__, std::string(part) + " in " + text);
  for (int i = 0; i < 300; ++i) w.kernels.push_back({{9999, 3}, 1, 0});
  text = problems_of(w.build());
  CHECK(text.find("304 problems") != std::string::npos && text.find("and 240 more") != std::string::npos);
}

}  // namespace

int main() {
  test_strings();
  test_references();
  test_enumerators();
  test_reserved();
  test_bounds();
  test_residency();
  test_memory_plan();
  test_many_storages();
  test_host_calls();
  test_names();
  test_all_at_once();
  return check_report();
}
