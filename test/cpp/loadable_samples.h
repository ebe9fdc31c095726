// SPDX-License-Identifier: BSD-3-Clause
//
// The programs that the loadable tests share.
#pragma once

#include "loadable_writer.h"

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

// What the validator says; empty when the file is good.
inline std::string problems_of(const Bytes& file) {
  return atalla_program_validate(file.data(), file.size()) == ATALLA_OK ? "" : atalla_rt_last_error();
}

}  // namespace loadable_test
