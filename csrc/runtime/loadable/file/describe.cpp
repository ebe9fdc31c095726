// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/file/describe.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "runtime/loadable/file/expressions.h"
#include "runtime/loadable/file/geometry.h"
#include "runtime/loadable/file/json.h"
#include "runtime/loadable/file/section_names.h"
#include "runtime/loadable/program/ports.h"

namespace atalla::runtime::loadable {
namespace {

constexpr const char* kSpaces[] = {"?", "arena", "weights", "input", "output", "state"};
constexpr const char* kValueKinds[] = {"?",         "input",  "output",   "intermediate",
                                       "parameter", "buffer", "constant", "state"};
constexpr const char* kDynamicKinds[] = {"?",        "integer", "operand_offset", "value_offset", "storage_bytes",
                                         "immediate"};

// The name of a validated enumerator.
template <size_t N>
const char* name_of(const char* const (&names)[N], auto number) {
  return names[static_cast<size_t>(number)];
}

class Describer {
 public:
  Describer(const View& view, std::string& out) : view_(view), json_(out) {}

  void run() {
    for (uint32_t i = 0; i < view_.dynamic.size(); ++i)
      if (view_.dynamic[i].kind == DynamicKind::kInteger) integers_.emplace(view_.dynamic[i].index, i);
    json_.open('{');
    header();
    array("kernels", view_.kernels, [&](const Kernel& r) {
      string("name", r.name);
      json_.field("version", r.version);
    });
    array("storages", view_.storages, [&](const Storage& r) { storage(r); });
    array("values", view_.values, [&](const Value& r) { value(r); });
    array("instructions", view_.instructions, [&](const Instruction& r) { instruction(r); });
    array("host_calls", view_.host_calls, [&](const HostCall& r) {
      string("program", r.program);
      string("ops", r.ops);
      integers("inputs", r.inputs);
      integers("outputs", r.outputs);
    });
    array("inputs", view_.inputs, [&](const Port& r) { port(r); });
    array("outputs", view_.outputs, [&](const Port& r) { port(r); });
    array("nodes", view_.nodes, [&](const Node& r) { node(r); });
    array("segments", view_.segments, [&](const Segment& r) {
      string("name", r.name);
      json_.field("kind", r.kind == SegmentKind::kNative ? "native" : "fallback");
      range("nodes", r.nodes);
      range("instructions", r.instructions);
    });
    array("methods", view_.methods, [&](const Method& r) { method(r); });
    array("states", view_.states, [&](const State& r) {
      string("name", r.name);
      json_.field("value", r.value);
      json_.field("zeros", (r.flags & kStateHasInitial) == 0);
    });
    array("symbols", view_.symbols, [&](const Symbol& r) { symbol(r); });
    array("dynamic", view_.dynamic, [&](const Dynamic& r) {
      json_.field("kind", name_of(kDynamicKinds, r.kind));
      json_.field("index", r.index);
      json_.field("expression", expression_text(view_, r.expression));
      json_.field("method", r.method);
    });
    array("guards", view_.guards, [&](const Guard& r) {
      string("text", r.text);
      json_.field("expression", expression_text(view_, r.expression));
      json_.field("method", r.method);
    });
    array("residency", view_.residency, [&](const Residency& r) {
      json_.field("storage", r.storage);
      json_.field("pad", r.pad);
      json_.field("offset", r.offset);
    });
    array("code", view_.code, [&](const Code& r) {
      json_.field("method", r.method);
      json_.field("version", r.version);
      range("packets", r.packets);
      range("words", r.words);
      range("relocations", r.relocations);
      json_.field("arena_bytes", r.arena_bytes);
      range("symbols", r.symbols);
    });
    json_.field("constant_bytes", view_.constant_bytes);
    array("goldens", view_.goldens, [&](const Golden& r) {
      json_.field("method", r.method);
      json_.field("seed", r.seed);
      json_.field("samples", r.samples.count);
      json_.field("rtol", r.rtol);
      json_.field("atol", r.atol);
    });
    json_.close('}');
  }

 private:
  template <class T, class F>
  void array(const char* name, const Table<T>& table, F&& f) {
    json_.list(name, table.size(), [&](uint32_t i) {
      json_.open('{');
      f(table[i]);
      json_.close('}');
    });
  }
  void string(const char* name, StringRef ref) { json_.field(name, view_.text(ref)); }
  void index(const char* name, uint32_t i) {
    json_.key(name);
    if (i == kNone) json_.null();
    else json_.value(i);
  }
  void range(const char* name, Range r) { pair(name, r.first, r.count); }
  void pair(const char* name, uint32_t a, uint32_t b) {
    json_.list(name, 2, [&](uint32_t i) { json_.value(i == 0 ? a : b); });
  }
  void integers(const char* name, Range r) {
    json_.list(name, r.count, [&](uint32_t i) { json_.value(view_.integers[r.first + i]); });
  }
  void shape(uint8_t dtype, uint8_t ndim, uint32_t sizes, uint32_t strides) {
    json_.field("dtype", dtype_name(dtype));
    integers("sizes", {sizes, ndim});
    integers("strides", {strides, ndim});
  }

  void header() {
    const Header& h = view_.header;
    pair("format", h.major, h.minor);
    pair("min_runtime", h.min_runtime >> 16, h.min_runtime & 0xFFFF);
    json_.field("isa_version", h.isa_version);
    json_.field("file_bytes", h.file_bytes);
    json_.list("sections", static_cast<uint32_t>(view_.sections.size()), [&](uint32_t i) {
      const Section& s = view_.sections[i];
      json_.open('{');
      json_.field("kind", static_cast<uint32_t>(s.kind));
      json_.field("name", section_name(s.kind));
      json_.field("must_understand", (s.flags & kMustUnderstand) != 0);
      json_.field("offset", s.offset);
      json_.field("bytes", s.bytes);
      json_.field("stride", s.stride);
      json_.field("crc32c", s.crc);
      json_.close('}');
    });
    json_.key("metadata");
    json_.open('{');
    for (uint32_t i = 0; i < view_.metadata.size(); ++i)
      json_.field(view_.text(view_.metadata[i].key), view_.text(view_.metadata[i].value));
    json_.close('}');
  }

  void storage(const Storage& r) {
    string("name", r.name);
    json_.field("space", name_of(kSpaces, r.space));
    json_.field("bytes", r.bytes);
    json_.field("offset", r.offset);
    if (r.space == Space::kArena) return pair("live", r.first_live, r.last_live);
    json_.key("live");
    json_.null();
  }

  void value(const Value& r) {
    string("name", r.name);
    string("fqn", r.fqn);
    json_.field("kind", name_of(kValueKinds, r.kind));
    json_.field("storage", r.storage);
    json_.field("byte_offset", r.byte_offset);
    shape(r.dtype, r.ndim, r.sizes, r.strides);
    index("node", r.node);
  }

  void instruction(const Instruction& r) {
    bool launch = r.kind != InstructionKind::kHostCall;
    json_.field("kind", !launch ? "host_call" : r.kind == InstructionKind::kRandom ? "random" : "launch");
    json_.field(launch ? "kernel" : "host_call", r.callee);
    index("node", r.node);
    index("segment", r.segment);
    if (!launch) return;
    json_.field("compute_dtype", dtype_name(r.compute_dtype));
    json_.field("n_outputs", r.n_outputs);
    json_.field("cores", std::max<unsigned>(1, r.cores));
    integers("iparams", r.iparams);
    json_.list("fparams", r.fparams.count, [&](uint32_t i) { json_.value(view_.doubles[r.fparams.first + i]); });
    json_.list("operands", r.operands.count, [&](uint32_t i) { operand(view_.operands[r.operands.first + i]); });
  }

  void operand(const Operand& r) {
    if (r.kind == OperandKind::kAbsent) return json_.null();
    json_.open('{');
    if (r.kind == OperandKind::kImmediate) {
      json_.field("dtype", dtype_name(r.dtype));
      json_.key("immediate");
      immediate(r);
    } else {
      index("value", r.value);
      json_.field("storage", r.storage);
      json_.field("byte_offset", r.byte_offset);
      shape(r.dtype, r.ndim, r.sizes, r.strides);
    }
    json_.close('}');
  }

  // A number where JSON and C++ have the type; the other types (half, complex) as hexadecimal bytes.
  void immediate(const Operand& r) {
    auto as = [&]<class T>(T number) {
      std::memcpy(&number, r.immediate.data(), sizeof number);
      return number;
    };
    switch (r.dtype) {
      case ATALLA_U8:
        return json_.value(unsigned{as(uint8_t{})});
      case ATALLA_I8:
        return json_.value(int{as(int8_t{})});
      case ATALLA_I16:
        return json_.value(as(int16_t{}));
      case ATALLA_I32:
        return json_.value(as(int32_t{}));
      case ATALLA_I64:
        return json_.value(as(int64_t{}));
      case ATALLA_F32:
        return json_.value(static_cast<double>(as(float{})));
      case ATALLA_F64:
        return json_.value(as(double{}));
      case ATALLA_BOOL:
        return json_.value(as(uint8_t{}) != 0);
      default:
        break;
    }
    constexpr char kHex[] = "0123456789abcdef";
    std::string text = "0x";
    for (uint32_t i = 0; i < element_bytes(r.dtype); ++i) {
      text += kHex[r.immediate[i] >> 4];
      text += kHex[r.immediate[i] & 15];
    }
    json_.value(std::string_view(text));
  }

  void port(const Port& r) {
    string("name", r.name);
    json_.field("value", r.value);
    if (r.flags & kPortUpdated) json_.field("updated", true);
    const Value v = view_.values[r.value];
    json_.list("dynamic", v.ndim, [&](uint32_t d) {  // the expression of each dimension that the call determines
      auto found = integers_.find(v.sizes + d);
      if (found == integers_.end()) json_.null();
      else json_.value(std::string_view(expression_text(view_, view_.dynamic[found->second].expression)));
    });
    if (r.guards != kNone) return integers("guards", {r.guards, 2u * v.ndim});
    json_.key("guards");
    json_.null();
  }

  void node(const Node& r) {
    string("name", r.name);
    string("op", r.op);
    json_.field("native", r.native != 0);
    string("reason", r.reason);
    string("source", r.source);
    string("module", r.module);
    json_.field("flops", r.flops);
    json_.field("op_version", r.op_version);
    index("segment", r.segment);
  }

  void symbol(const Symbol& r) {
    string("name", r.name);
    json_.field("method", r.method);
    json_.field("input", r.input);
    json_.field("dim", r.dim);
    json_.field("min", r.min);
    json_.key("max");
    if (r.max >= kMaxElements - 1) json_.null();
    else json_.value(r.max);
    json_.field("multiplier", r.multiplier);
    json_.field("offset", r.offset);
    json_.field("planned", r.value);
    json_.field("sizes", range_text(r));
  }

  void method(const Method& r) {
    string("name", r.name);
    range("inputs", r.inputs);
    range("outputs", r.outputs);
    range("instructions", r.instructions);
    range("nodes", r.nodes);
    range("segments", r.segments);
    json_.field("arena_bytes", r.arena_bytes);
    json_.field("estimate_cycles", r.estimate_cycles);
  }

  const View& view_;
  JsonWriter json_;
  std::unordered_map<uint32_t, uint32_t> integers_;  // entry of INTEGERS -> record of DYNAMIC
};

}  // namespace

std::string describe_json(const View& view) {
  std::string text;
  Describer(view, text).run();
  return text;
}

}  // namespace atalla::runtime::loadable
