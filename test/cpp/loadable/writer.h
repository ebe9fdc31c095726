// SPDX-License-Identifier: BSD-3-Clause
//
// Builds loadables for tests: records are plain vectors, so that a test can spoil any field before build() seals the
// file with correct checksums. Knows the layout from docs/reference/loadable-format.md only through format.h.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "runtime/c_api/atalla_program.h"
#include "runtime/loadable/file/format.h"

namespace loadable_test {

using namespace atalla::runtime::loadable;
using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& bytes, const T* data, size_t count) {
  const auto* p = reinterpret_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), p, p + count * sizeof(T));
}

struct RawSection {
  uint32_t kind;
  uint32_t flags;
  uint32_t stride;
  Bytes bytes;
};

struct Writer {
  std::string strings;
  std::vector<int64_t> integers;
  std::vector<double> doubles;
  std::vector<Kernel> kernels;
  std::vector<Storage> storages;
  std::vector<Value> values;
  std::vector<Operand> operands;
  std::vector<Instruction> instructions;
  std::vector<HostCall> host_calls;
  std::vector<Port> inputs, outputs;
  std::vector<Node> nodes;
  std::vector<Segment> segments;
  std::vector<Method> methods;
  std::vector<Metadata> metadata;
  std::vector<State> states;
  std::vector<Symbol> symbols;
  std::vector<Expression> expressions;
  std::vector<Dynamic> dynamic;
  std::vector<Guard> guards;
  std::vector<Golden> goldens;
  std::vector<Residency> residency;
  std::vector<Code> code;
  std::vector<Relocation> relocations;
  std::vector<uint32_t> code_words;
  std::vector<Packet> packets;
  Bytes constants;
  Bytes weights;
  std::vector<RawSection> extra;  // of unknown kinds
  Header header = default_header();

  static Header default_header() {
    Header h{};
    h.magic = kMagic;
    h.major = 1;
    h.header_bytes = 128;
    h.min_runtime = 0x00010000;
    h.table_offset = 128;
    h.section_stride = 32;
    return h;
  }

  StringRef string(const std::string& text) {
    StringRef ref{static_cast<uint32_t>(strings.size()), static_cast<uint32_t>(text.size())};
    strings += text;
    strings += '\0';
    return ref;
  }
  uint32_t pool(std::initializer_list<int64_t> numbers) {
    auto first = static_cast<uint32_t>(integers.size());
    integers.insert(integers.end(), numbers);
    return first;
  }
  uint32_t kernel(const std::string& name, uint32_t version = 1) {
    kernels.push_back({string(name), version, 0});
    return static_cast<uint32_t>(kernels.size() - 1);
  }
  uint32_t storage(Space space, uint64_t bytes, uint64_t offset = 0, uint32_t first = 0, uint32_t last = 0) {
    storages.push_back({space, {}, bytes, offset, first, last, {}});
    return static_cast<uint32_t>(storages.size() - 1);
  }
  uint32_t value(const std::string& name, ValueKind kind, uint32_t storage, std::initializer_list<int64_t> sizes,
                 std::initializer_list<int64_t> strides, uint8_t dtype = ATALLA_F32) {
    Value v{};
    v.name = string(name);
    v.storage = storage;
    v.dtype = dtype;
    v.kind = kind;
    v.ndim = static_cast<uint8_t>(sizes.size());
    v.sizes = pool(sizes);
    v.strides = pool(strides);
    v.node = kNone;
    values.push_back(v);
    return static_cast<uint32_t>(values.size() - 1);
  }
  static Operand absent() {
    Operand o{};
    o.storage = o.value = kNone;
    return o;
  }
  static Operand immediate(float x) {
    Operand o = absent();
    o.kind = OperandKind::kImmediate;
    o.dtype = ATALLA_F32;
    std::memcpy(o.immediate.data(), &x, sizeof x);
    return o;
  }
  Operand memory(uint32_t value) const {
    const Value& v = values[value];
    Operand o{};
    o.kind = OperandKind::kMemory;
    o.dtype = v.dtype;
    o.ndim = v.ndim;
    o.storage = v.storage;
    o.byte_offset = v.byte_offset;
    o.sizes = v.sizes;
    o.strides = v.strides;
    o.value = value;
    return o;
  }
  Operand memory(uint32_t value, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides) {
    Operand o = memory(value);
    o.ndim = static_cast<uint8_t>(sizes.size());
    o.sizes = pool(sizes);
    o.strides = pool(strides);
    return o;
  }
  void launch(uint32_t kernel, std::initializer_list<Operand> list, std::initializer_list<int64_t> iparams = {},
              std::initializer_list<double> fparams = {}, uint8_t n_outputs = 1) {
    Instruction r{};
    r.kind = InstructionKind::kLaunch;
    r.compute_dtype = ATALLA_F32;
    r.n_outputs = n_outputs;
    r.callee = kernel;
    r.operands = {static_cast<uint32_t>(operands.size()), static_cast<uint32_t>(list.size())};
    operands.insert(operands.end(), list);
    r.iparams = {pool(iparams), static_cast<uint32_t>(iparams.size())};
    r.fparams = {static_cast<uint32_t>(doubles.size()), static_cast<uint32_t>(fparams.size())};
    doubles.insert(doubles.end(), fparams);
    r.node = r.segment = kNone;
    instructions.push_back(r);
  }
  void host_call(const std::string& program, std::initializer_list<int64_t> in, std::initializer_list<int64_t> out,
                 const std::string& ops) {
    HostCall call{};
    call.program = string(program);
    call.inputs = {pool(in), static_cast<uint32_t>(in.size())};
    call.outputs = {pool(out), static_cast<uint32_t>(out.size())};
    call.ops = string(ops);
    host_calls.push_back(call);
    Instruction r{};
    r.kind = InstructionKind::kHostCall;
    r.callee = static_cast<uint32_t>(host_calls.size() - 1);
    r.node = r.segment = kNone;
    instructions.push_back(r);
  }
  void input(const std::string& name, uint32_t value) { inputs.push_back({string(name), value, kNone, 0, 0}); }
  void output(const std::string& name, uint32_t value) { outputs.push_back({string(name), value, kNone, 0, 0}); }
  uint32_t expression(ExpressionOp op, uint32_t a = 0, uint32_t b = 0, int64_t constant = 0) {
    expressions.push_back({op, {}, a, b, 0, constant});
    return static_cast<uint32_t>(expressions.size() - 1);
  }
  uint32_t constant(int64_t n) { return expression(ExpressionOp::kConstant, 0, 0, n); }
  void follows(DynamicKind kind, uint32_t index, uint32_t expression, uint32_t method = 0) {
    dynamic.push_back({kind, index, expression, method});
  }
  // A method as code that begins with packets of one instruction each; without any, with those of the latest code.
  void method_code(uint32_t method, const std::vector<uint64_t>& instructions, const std::vector<uint32_t>& words,
                   const std::vector<Relocation>& moved, uint64_t arena_bytes, const std::vector<int64_t>& sizes = {}) {
    auto next = [](const auto& records, size_t count) {
      return Range{static_cast<uint32_t>(records.size()), static_cast<uint32_t>(count)};
    };
    const Range own = instructions.empty() ? code.back().packets : next(packets, instructions.size());
    const Range symbol_values = sizes.empty() ? Range{} : next(integers, sizes.size());
    code.push_back({method,
                    kCodeVersion,
                    own,
                    next(code_words, words.size()),
                    next(relocations, moved.size()),
                    arena_bytes,
                    symbol_values,
                    {}});
    integers.insert(integers.end(), sizes.begin(), sizes.end());
    constexpr uint64_t kNop = 0x31;
    for (uint64_t instruction : instructions) {
      Packet& packet = packets.emplace_back();
      for (size_t slot = 0; slot < 4; ++slot)
        std::memcpy(&packet.slots[5 * slot], slot == 0 ? &instruction : &kNop, 5);  // little endian
    }
    code_words.insert(code_words.end(), words.begin(), words.end());
    relocations.insert(relocations.end(), moved.begin(), moved.end());
  }
  // A method of all that there is.
  void method(const std::string& name, uint64_t arena_bytes) {
    auto all = [](const auto& records) { return Range{0, static_cast<uint32_t>(records.size())}; };
    methods.push_back(
        {string(name), all(inputs), all(outputs), all(instructions), all(nodes), all(segments), arena_bytes, 0});
  }

  Bytes build() const {
    std::vector<RawSection> sections;
    auto add = [&](SectionKind kind, uint32_t stride, const auto& records, uint32_t flags = 0) {
      if (records.empty()) return;
      RawSection s{static_cast<uint32_t>(kind), flags, stride, {}};
      append(s.bytes, records.data(), records.size());
      sections.push_back(std::move(s));
    };
    add(SectionKind::kStrings, 1, strings);
    add(SectionKind::kIntegers, 8, integers);
    add(SectionKind::kDoubles, 8, doubles);
    add(SectionKind::kKernels, 16, kernels);
    add(SectionKind::kStorages, 40, storages);
    add(SectionKind::kValues, 48, values);
    add(SectionKind::kOperands, 48, operands);
    add(SectionKind::kInstructions, 40, instructions);
    add(SectionKind::kHostCalls, 32, host_calls);
    add(SectionKind::kInputs, 24, inputs);
    add(SectionKind::kOutputs, 24, outputs);
    add(SectionKind::kNodes, 64, nodes);
    add(SectionKind::kSegments, 32, segments);
    add(SectionKind::kMethods, 64, methods);
    add(SectionKind::kMetadata, 16, metadata);
    add(SectionKind::kStates, 24, states, kMustUnderstand);
    add(SectionKind::kSymbols, 64, symbols, kMustUnderstand);
    add(SectionKind::kExpressions, 24, expressions, kMustUnderstand);
    add(SectionKind::kDynamic, 16, dynamic, kMustUnderstand);
    add(SectionKind::kGuards, 16, guards, kMustUnderstand);
    add(SectionKind::kGoldens, 56, goldens);
    add(SectionKind::kResidency, 16, residency);
    add(SectionKind::kCode, sizeof(Code), code);
    add(SectionKind::kRelocations, 24, relocations);
    add(SectionKind::kCodeWords, 4, code_words);
    add(SectionKind::kPackets, 20, packets);
    add(SectionKind::kConstants, 1, constants);
    sections.insert(sections.end(), extra.begin(), extra.end());
    if (!weights.empty()) sections.push_back({static_cast<uint32_t>(SectionKind::kWeights), 0, 1, weights});
    return assemble(header, sections);
  }

  static Bytes assemble(Header h, const std::vector<RawSection>& sections) {
    Bytes file(sizeof(Header) + sections.size() * sizeof(Section));
    std::vector<Section> table;
    for (const RawSection& s : sections) {
      size_t alignment = s.kind == static_cast<uint32_t>(SectionKind::kWeights) ? 4096 : 64;
      file.resize((file.size() + alignment - 1) / alignment * alignment);
      table.push_back({static_cast<SectionKind>(s.kind), s.flags, file.size(), s.bytes.size(), s.stride,
                       atalla_crc32c(0, s.bytes.data(), s.bytes.size())});
      file.insert(file.end(), s.bytes.begin(), s.bytes.end());
    }
    file.resize((file.size() + 63) / 64 * 64);
    h.file_bytes = file.size();
    h.section_count = static_cast<uint32_t>(table.size());
    h.table_crc = atalla_crc32c(0, table.data(), table.size() * sizeof(Section));
    h.header_crc = atalla_crc32c(0, &h, offsetof(Header, header_crc));
    std::memcpy(file.data(), &h, sizeof h);
    if (!table.empty()) std::memcpy(file.data() + sizeof h, table.data(), table.size() * sizeof(Section));
    return file;
  }
};

// Makes the checksums of a file true again after a change of its bytes, as far as header and table can be followed.
inline void reseal(Bytes& file) {
  if (file.size() < sizeof(Header)) return;
  Header h;
  std::memcpy(&h, file.data(), sizeof h);
  uint64_t table_bytes = uint64_t{h.section_count} * h.section_stride;
  if (h.section_count <= kMaxSections && h.section_stride >= sizeof(Section) && h.section_stride <= 4096 &&
      sizeof(Header) + table_bytes <= file.size()) {
    for (uint32_t i = 0; i < h.section_count; ++i) {
      std::byte* place = file.data() + sizeof(Header) + size_t{i} * h.section_stride;
      Section s;
      std::memcpy(&s, place, sizeof s);
      if (s.offset > file.size() || s.bytes > file.size() - s.offset) continue;
      s.crc = atalla_crc32c(0, file.data() + s.offset, s.bytes);
      std::memcpy(place, &s, sizeof s);
    }
    h.table_crc = atalla_crc32c(0, file.data() + sizeof(Header), table_bytes);
  }
  h.file_bytes = file.size();
  h.header_crc = atalla_crc32c(0, &h, offsetof(Header, header_crc));
  std::memcpy(file.data(), &h, sizeof h);
}

}  // namespace loadable_test
