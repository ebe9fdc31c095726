// SPDX-License-Identifier: BSD-3-Clause
//
// The programs that the loadable tests share.
#pragma once

#include "loadable/writer.h"

namespace loadable_test {

// Records of linear_sample, by what they are.
enum SampleStorage : uint32_t { kX, kW, kB, kT0, kT1, kY };

inline const std::vector<float>& sample_weight() {
  static const std::vector<float> w = {1, -2, 0.5f, 3, -1, 4};  // [3, 2]
  return w;
}
inline const std::vector<float>& sample_bias() {
  static const std::vector<float> b = {10, 20};
  return b;
}

// forward(x [4, 3]) = 2 * (x @ w + b), [4, 2]: gemm into arena bytes 0.., add into 64.., add into the output.
inline Writer linear_sample() {
  Writer w;
  w.storage(Space::kInput, 48);
  w.storage(Space::kWeights, 24, 0);
  w.storage(Space::kWeights, 8, 64);
  w.storage(Space::kArena, 32, 0, 0, 1);
  w.storage(Space::kArena, 32, 64, 1, 2);
  w.storage(Space::kOutput, 32);
  uint32_t x = w.value("x", ValueKind::kInput, kX, {4, 3}, {3, 1});
  uint32_t weight = w.value("w", ValueKind::kParameter, kW, {3, 2}, {2, 1});
  uint32_t bias = w.value("b", ValueKind::kParameter, kB, {2}, {1});
  uint32_t t0 = w.value("mm", ValueKind::kIntermediate, kT0, {4, 2}, {2, 1});
  uint32_t t1 = w.value("add", ValueKind::kIntermediate, kT1, {4, 2}, {2, 1});
  uint32_t y = w.value("add_1", ValueKind::kOutput, kY, {4, 2}, {2, 1});
  uint32_t gemm = w.kernel("gemm"), add = w.kernel("pointwise.add");
  w.launch(
      gemm,
      {w.memory(t0, {1, 4, 2}, {8, 2, 1}), w.memory(x, {1, 4, 3}, {12, 3, 1}), w.memory(weight, {1, 3, 2}, {6, 2, 1})},
      {}, {1, 0});
  w.launch(add, {w.memory(t1), w.memory(t0), w.memory(bias, {4, 2}, {0, 1})}, {1}, {1});
  w.launch(add, {w.memory(y), w.memory(t1), w.memory(t1)}, {1}, {1});
  w.input("x", x);
  w.output("y", y);
  const char* ops[] = {"aten::mm", "aten::add.Tensor", "aten::add.Tensor"};
  w.segments.push_back({w.string("segment_0"), {0, 3}, {0, 3}, SegmentKind::kNative, {}});
  for (uint32_t i = 0; i < 3; ++i) {
    Node n{};
    n.name = w.values[t0 + i].name;
    n.op = w.string(ops[i]);
    n.source = w.string("model.py:7");
    n.flops = i == 0 ? 48 : 8;
    n.native = 1;
    w.nodes.push_back(n);
    w.instructions[i].node = i;
    w.instructions[i].segment = 0;
    w.values[t0 + i].node = i;
  }
  w.metadata.push_back({w.string("producer"), w.string("test writer")});
  w.method("forward", 128);
  w.weights.resize(72);
  std::memcpy(w.weights.data(), sample_weight().data(), 24);
  std::memcpy(w.weights.data() + 64, sample_bias().data(), 8);
  return w;
}

// forward(x [5]) = sort(x) through a host call, then + 1.
inline Writer host_call_sample() {
  Writer w;
  uint32_t in = w.storage(Space::kInput, 20), mid = w.storage(Space::kArena, 20, 0, 0, 1),
           out = w.storage(Space::kOutput, 20);
  uint32_t x = w.value("x", ValueKind::kInput, in, {5}, {1});
  uint32_t s = w.value("sort", ValueKind::kIntermediate, mid, {5}, {1});
  uint32_t y = w.value("add", ValueKind::kOutput, out, {5}, {1});
  w.host_call("{\"nodes\": [\"sort\"]}", {x}, {s}, "aten::sort\naten::alias_copy");
  w.launch(w.kernel("pointwise.add"), {w.memory(y), w.memory(s), Writer::immediate(1)}, {1}, {1});
  w.input("x", x);
  w.output("y", y);
  w.method("forward", 64);
  return w;
}

// step(x [4]): total += x, gives total; peek(x [4]) = total + x. The state begins as 1, 2, 3, 4.
inline Writer state_sample() {
  Writer w;
  w.header.minor = 1;
  w.weights.resize(16);
  const float first[] = {1, 2, 3, 4};
  std::memcpy(w.weights.data(), first, sizeof first);
  uint32_t total = w.storage(Space::kState, 16);
  uint32_t t = w.value("total", ValueKind::kState, total, {4}, {1});
  w.states.push_back({w.string("total"), t, kStateHasInitial, 0});
  uint32_t add = w.kernel("pointwise.add");
  for (const char* name : {"step", "peek"}) {
    uint32_t x = w.value("x", ValueKind::kInput, w.storage(Space::kInput, 16), {4}, {1});
    uint32_t y = w.value("y", ValueKind::kOutput, w.storage(Space::kOutput, 16), {4}, {1});
    auto first_input = static_cast<uint32_t>(w.inputs.size());
    auto first_instruction = static_cast<uint32_t>(w.instructions.size());
    if (*name == 's') {
      w.launch(add, {w.memory(t), w.memory(t), w.memory(x)}, {1}, {1});
      w.launch(add, {w.memory(y), w.memory(t), w.memory(x)}, {0}, {0});
    } else {
      w.launch(add, {w.memory(y), w.memory(t), w.memory(x)}, {1}, {1});
    }
    w.input("x", x);
    w.output("y", y);
    Range instructions{first_instruction, static_cast<uint32_t>(w.instructions.size()) - first_instruction};
    w.methods.push_back({w.string(name), {first_input, 1}, {first_input, 1}, instructions, {}, {}, 0, 0});
  }
  return w;
}

// linear_sample for x [n, 3]. Bounded: 1 <= n <= 8, planned at 8. Unbounded: n >= 1, written for 4 rows.
inline Writer dynamic_sample(bool bounded) {
  Writer w = linear_sample();
  w.header.minor = 1;
  int64_t n = bounded ? 8 : 4;
  uint32_t rows = w.constant(0);  // replaced below: the symbol is expression 0
  w.expressions[rows] = {ExpressionOp::kSymbol, {}, 0, 0, 0, 0};
  uint32_t two = w.constant(2), three = w.constant(3), four = w.constant(4);
  uint32_t n2 = w.expression(ExpressionOp::kMul, rows, two), n3 = w.expression(ExpressionOp::kMul, rows, three);
  uint32_t bytes_in = w.expression(ExpressionOp::kMul, n3, four),
           bytes_out = w.expression(ExpressionOp::kMul, n2, four);
  w.symbols.push_back({w.string("n"), 0, 0, 0, 0, 1, bounded ? 8 : (int64_t{1} << 47) - 1, 1, 0, n});
  auto set = [&](uint32_t at, int64_t value, uint32_t expression) {
    w.integers[at] = value;
    w.follows(DynamicKind::kInteger, at, expression);
  };
  for (uint32_t v : {0u, 3u, 4u, 5u}) set(w.values[v].sizes, n, rows);  // x, mm, add, add_1
  set(w.operands[0].sizes + 1, n, rows);                                // gemm's out and a
  set(w.operands[0].strides, 2 * n, n2);
  set(w.operands[1].sizes + 1, n, rows);
  set(w.operands[1].strides, 3 * n, n3);
  set(w.operands[5].sizes, n, rows);  // the bias, expanded
  auto resize = [&](uint32_t storage, uint64_t bytes, uint32_t expression, bool dynamic) {
    w.storages[storage].bytes = bytes;
    if (dynamic) w.follows(DynamicKind::kStorageBytes, storage, expression);
  };
  auto wide = static_cast<uint64_t>(n);
  resize(kX, 12 * wide, bytes_in, true);
  resize(kY, 8 * wide, bytes_out, true);
  resize(kT0, 8 * wide, bytes_out, !bounded);
  resize(kT1, 8 * wide, bytes_out, !bounded);
  return w;
}

// linear_sample with its intermediates in two scratchpads and its product over two cores (1.2).
inline Writer resident_sample() {
  Writer w = linear_sample();
  w.header.minor = 2;
  w.residency = {{kT0, 0, 256}, {kT1, 1, 0}};
  w.instructions[0].cores = 2;
  return w;
}

// Code that adds one tensor to a multiple of another, and writes the sum to two places.
inline const std::vector<uint64_t>& adding_code() {
  static const std::vector<uint64_t> instructions = {
      0x500a9,       // lw.s x1, 0(x10): x
      0x2050129,     // lw.s x2, 4(x10): total
      0x40501a9,     // lw.s x3, 8(x10): where the sum goes
      0x6050229,     // lw.s x4, 12(x10): y
      0x80502a9,     // lw.s x5, 16(x10)
      0xa050329,     // lw.s x6, 20(x10)
      0x282a9,       // lw.s x5, 0(x5): scale of x
      0x30329,       // lw.s x6, 0(x6): elements
      0x83a9,        // lw.s x7, 0(x1)
      0x10429,       // lw.s x8, 0(x2)
      0x2838391,     // mul.bf x7, x7, x5
      0x384040f,     // add.bf x8, x8, x7
      0x1842a,       // sw.s x8, 0(x3)
      0x2042a,       // sw.s x8, 0(x4)
      0x2008096,     // addi.s x1, x1, 4
      0x2010116,     // addi.s x2, x2, 4
      0x2018196,     // addi.s x3, x3, 4
      0x2020216,     // addi.s x4, x4, 4
      0x830317,      // subi.s x6, x6, 1
      0xe480034024,  // bne.s x6, x0, to the ninth packet
      0x32,          // halt.s
  };
  return instructions;
}

// state_sample with code for both methods (1.3). Their tables differ in where the sum goes: to the state, or to the
// arena.
inline Writer code_sample() {
  Writer w = state_sample();
  w.header.minor = 3;
  w.header.isa_version = 1;
  const float constants[] = {0, 1};
  append(w.constants, constants, 2);
  for (uint32_t method : {0u, 1u}) {
    const Region sum = method == 0 ? Region::kState : Region::kArena;
    w.method_code(method, adding_code(), {0, 0, 0, 0, 0, 0, 4},
                  {{0, Region::kInput, 0, 0, 0},
                   {1, Region::kState, 0, 0, 0},
                   {2, sum, 0, 0, 0},
                   {3, Region::kOutput, 0, 0, 0},
                   {4, Region::kConstants, 0, 0, 4},
                   {5, Region::kTable, 0, 0, 24}},
                  method == 0 ? 0 : 16);
  }
  return w;
}

// dynamic_sample, bounded, with code for every size but 5 (1.4), which gives the first 2 n elements of x.
inline Writer sized_code_sample() {
  Writer w = dynamic_sample(true);
  w.header.minor = 4;
  w.header.isa_version = 1;
  const std::vector<float> zeros(16);
  const float one = 1;
  append(w.constants, zeros.data(), zeros.size());
  append(w.constants, &one, 1);
  for (int64_t n : {1, 2, 3, 4, 6, 7, 8})
    w.method_code(0, n == 1 ? adding_code() : std::vector<uint64_t>(), {0, 0, 0, 0, 0, 0, 2 * static_cast<uint32_t>(n)},
                  {{0, Region::kInput, 0, 0, 0},
                   {1, Region::kConstants, 0, 0, 0},
                   {2, Region::kArena, 0, 0, 0},
                   {3, Region::kOutput, 0, 0, 0},
                   {4, Region::kConstants, 0, 0, 64},
                   {5, Region::kTable, 0, 0, 24}},
                  64, {n});
  return w;
}

// code_sample without instructions.
inline Writer code_only_sample() {
  Writer w = code_sample();
  w.instructions.clear();
  w.operands.clear();
  w.kernels.clear();
  for (Method& method : w.methods) method.instructions = {};
  return w;
}

// forward(x [4], total [4]): total += x + uniform numbers of [0, 1); the caller gives total with its value.
inline Writer updating_sample() {
  Writer w;
  uint32_t x = w.value("x", ValueKind::kInput, w.storage(Space::kInput, 16), {4}, {1});
  uint32_t drawn = w.value("rand", ValueKind::kIntermediate, w.storage(Space::kArena, 16, 0, 0, 1), {4}, {1});
  uint32_t total = w.value("total", ValueKind::kOutput, w.storage(Space::kOutput, 16), {4}, {1});
  uint32_t uniform = w.kernel("random.uniform", 2), add = w.kernel("pointwise.add");
  w.launch(uniform, {w.memory(drawn)}, {0, 0}, {0, 1});
  w.instructions[0].kind = InstructionKind::kRandom;
  w.launch(add, {w.memory(drawn), w.memory(drawn), w.memory(x)}, {1}, {1});
  w.launch(add, {w.memory(total), w.memory(total), w.memory(drawn)}, {1}, {1});
  w.storages[1].last_live = 2;
  w.input("x", x);
  w.output("total", total);
  w.outputs[0].flags = kPortUpdated;
  w.method("forward", 64);
  return w;
}

// What the validator says; empty when the file is good.
inline std::string problems_of(const Bytes& file) {
  return atalla_program_validate(file.data(), file.size()) == ATALLA_OK ? "" : atalla_rt_last_error();
}

}  // namespace loadable_test
