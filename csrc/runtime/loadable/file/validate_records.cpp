// SPDX-License-Identifier: BSD-3-Clause
#include <cinttypes>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "runtime/loadable/file/geometry.h"
#include "runtime/loadable/file/record_reporter.h"
#include "runtime/loadable/file/validate.h"

namespace atalla::runtime::loadable {
namespace {

class RecordChecker : RecordReporter {
 public:
  RecordChecker(const View& view, Problems& problems, bool strings) : RecordReporter(view, problems, strings) {}

  // What sizes, strides, offsets and numbers of bytes decide.
  void run_tensors() {
    each("value", view_.values, [&](const Value& r) { check_value(r); });
    each("operand", view_.operands, [&](const Operand& r) { check_operand(r); });
    each("instruction", view_.instructions, [&](const Instruction& r) { check_instruction(r); });
    each("host call", view_.host_calls, [&](const HostCall& r) { check_host_call(r); });
    each("input", view_.inputs, [&](const Port& r) { check_port(r, Space::kInput); });
    each("output", view_.outputs, [&](const Port& r) { check_port(r, Space::kOutput); });
  }

  void run() {
    each("kernel", view_.kernels, [&](const Kernel& r) { check_kernel(r); });
    each("storage", view_.storages, [&](const Storage& r) { check_storage(r); });
    run_tensors();
    each("node", view_.nodes, [&](const Node& r) { check_node(r); });
    each("segment", view_.segments, [&](const Segment& r) { check_segment(r); });
    std::set<std::string_view> names;
    each("method", view_.methods, [&](const Method& r) { check_method(r, names); });
    std::set<std::string_view> keys;
    each("metadata entry", view_.metadata, [&](const Metadata& r) { check_metadata(r, keys); });
    if (view_.methods.size() == 0) problems_.add("no method; at least one is expected");
    std::set<std::string_view> states;
    each("state", view_.states, [&](const State& r) { check_state(r, states); });
    each("residency", view_.residency, [&](const Residency& r) { check_residency(r); });
    each("golden", view_.goldens, [&](const Golden& r) { check_golden(r); });
  }

 private:
  // The shape, when it can be read and its elements lie in the storage.
  std::optional<Shape> tensor(uint8_t dtype, uint8_t ndim, uint32_t sizes, uint32_t strides, uint32_t storage,
                              uint64_t byte_offset) {
    uint32_t element = element_bytes(dtype);
    if (element == 0) problem("dtype code %u is not one", dtype);
    if (ndim > ATALLA_MAX_DIMS) problem("%u dimensions, at most %d expected", ndim, ATALLA_MAX_DIMS);
    if (element == 0 || ndim > ATALLA_MAX_DIMS) return std::nullopt;
    if (!range("sizes", {sizes, ndim}, view_.integers, "INTEGERS") ||
        !range("strides", {strides, ndim}, view_.integers, "INTEGERS") ||
        !index("storage", storage, view_.storages, "STORAGES"))
      return std::nullopt;
    Shape shape = read_shape(view_, ndim, sizes, strides);
    Int128 elements = 1;
    for (int d = 0; d < ndim; ++d) {
      if (shape.sizes[d] < 0 || shape.sizes[d] >= kMaxElements || shape.strides[d] <= -kMaxElements ||
          shape.strides[d] >= kMaxElements) {
        problem("dimension %d has size %" PRId64 " and stride %" PRId64 ", out of range", d, shape.sizes[d],
                shape.strides[d]);
        return std::nullopt;
      }
      if (elements < kMaxElements) elements *= shape.sizes[d];  // once too large it stays so, unless a size is 0
    }
    if (elements >= kMaxElements && !shape.empty()) {
      problem("too many elements, fewer than 2^47 expected");
      return std::nullopt;
    }
    uint64_t bytes = view_.storages[storage].bytes;
    if (byte_offset % element != 0)
      problem("byte offset %" PRIu64 " is not a multiple of the element's %u bytes", byte_offset, element);
    if (byte_offset / element >= uint64_t{kMaxElements}) {
      problem("byte offset %" PRIu64 " is out of range", byte_offset);
      return std::nullopt;
    }
    if (shape.empty()) return shape;  // has no element that could lie outside
    Int128 low, high;
    shape.extent(low, high);
    Int128 begin = static_cast<Int128>(byte_offset) + low * element;
    Int128 end = static_cast<Int128>(byte_offset) + (high + 1) * element;
    if (begin < 0 || end > static_cast<Int128>(bytes)) {
      auto clamp = [](Int128 n) { return n < INT64_MIN ? INT64_MIN : n > INT64_MAX ? INT64_MAX : int64_t(n); };
      problem("reaches bytes %" PRId64 " to %" PRId64 " of storage %u, which has %" PRIu64 " bytes", clamp(begin),
              clamp(end), storage, bytes);
      return std::nullopt;
    }
    return shape;
  }

  void check_kernel(const Kernel& r) {
    if (string("name", r.name) && r.name.bytes == 0) problem("has no name");
    zero(r.reserved);
  }

  void check_storage(const Storage& r) {
    string("name", r.name);
    zero(r.reserved);
    auto space = static_cast<unsigned>(r.space);
    if (space < 1 || space > 5) problem("space %u, expected 1 to 5", space);
    if (r.bytes > uint64_t{INT64_MAX}) problem("%" PRIu64 " bytes, fewer than 2^63 expected", r.bytes);
    if (r.space != Space::kArena && (r.first_live != 0 || r.last_live != 0))
      problem("live range %u to %u outside the arena, expected 0 to 0", r.first_live, r.last_live);
    if ((r.space == Space::kInput || r.space == Space::kOutput) && r.offset != 0)
      problem("offset %" PRIu64 " of an input or output, expected 0", r.offset);
  }

  void check_value(const Value& r) {
    string("name", r.name);
    string("fqn", r.fqn);
    optional_index("node", r.node, view_.nodes, "NODES");
    zero(uint64_t{r.reserved0} | r.reserved1);
    auto shape = tensor(r.dtype, r.ndim, r.sizes, r.strides, r.storage, r.byte_offset);
    for (int d = 0; shape && d < shape->ndim; ++d)
      if (shape->strides[d] < 0) problem("stride %" PRId64 " of dimension %d is negative", shape->strides[d], d);
    if (r.storage >= view_.storages.size()) return;
    Space space = view_.storages[r.storage].space;
    auto kind = static_cast<unsigned>(r.kind);
    bool good = false;
    switch (r.kind) {
      case ValueKind::kInput:
        good = space == Space::kInput;
        break;
      case ValueKind::kOutput:
        good = space == Space::kOutput;
        break;
      case ValueKind::kIntermediate:
        good = true;
        break;
      case ValueKind::kParameter:
      case ValueKind::kBuffer:
      case ValueKind::kConstant:
        good = space == Space::kWeights;
        break;
      case ValueKind::kState:
        good = space == Space::kState;
        break;
    }
    if (!good) problem("kind %u does not go with a storage of space %u", kind, static_cast<unsigned>(space));
  }

  void check_operand(const Operand& r) {
    zero(uint64_t{r.reserved0} | r.reserved1);
    optional_index("value", r.value, view_.values, "VALUES");
    uint32_t used = r.kind == OperandKind::kImmediate ? element_bytes(r.dtype) : 0;
    for (uint32_t i = used; i < r.immediate.size(); ++i)
      if (r.immediate[i] != 0) {
        problem("immediate bytes beyond %u are not zero", used);
        break;
      }
    if (r.kind == OperandKind::kMemory) {
      tensor(r.dtype, r.ndim, r.sizes, r.strides, r.storage, r.byte_offset);
    } else if (r.kind == OperandKind::kAbsent || r.kind == OperandKind::kImmediate) {
      if (r.storage != kNone || r.byte_offset != 0 || r.ndim != 0)
        problem("not in memory, but storage %u, byte offset %" PRIu64 ", %u dimensions", r.storage, r.byte_offset,
                r.ndim);
      if (r.kind == OperandKind::kImmediate && used == 0) problem("dtype code %u is not one", r.dtype);
      if (r.kind == OperandKind::kAbsent && r.dtype != 0) problem("absent, but of dtype code %u", r.dtype);
    } else {
      problem("kind %u, expected 0 to 2", static_cast<unsigned>(r.kind));
    }
  }

  void check_instruction(const Instruction& r) {
    if (view_.header.minor < 2 || r.kind == InstructionKind::kHostCall) zero(r.cores);
    optional_index("node", r.node, view_.nodes, "NODES");
    optional_index("segment", r.segment, view_.segments, "SEGMENTS");
    bool operands = range("operands", r.operands, view_.operands, "OPERANDS", ATALLA_MAX_OPERANDS);
    range("iparams", r.iparams, view_.integers, "INTEGERS", ATALLA_MAX_PARAMS);
    range("fparams", r.fparams, view_.doubles, "DOUBLES", ATALLA_MAX_FLOATS);
    if (r.kind == InstructionKind::kHostCall) {
      index("host call", r.callee, view_.host_calls, "HOST_CALLS");
      if (r.operands.count != 0 || r.iparams.count != 0 || r.fparams.count != 0 || r.n_outputs != 0 ||
          r.compute_dtype != 0)
        problem("a host call with operands, parameters or a dtype of its own");
    } else if (r.kind == InstructionKind::kLaunch || r.kind == InstructionKind::kRandom) {
      index("kernel", r.callee, view_.kernels, "KERNELS");
      if (element_bytes(r.compute_dtype) == 0) problem("compute dtype code %u is not one", r.compute_dtype);
      if (r.n_outputs > r.operands.count) problem("%u outputs, but %u operands", r.n_outputs, r.operands.count);
      else if (operands) check_outputs(r);
    } else {
      problem("kind %u, expected 1 to 3", static_cast<unsigned>(r.kind));
    }
  }

  // True if the storage, sizes and strides of a value or operand lie inside their tables.
  bool readable(const auto& t) const {
    return t.storage < view_.storages.size() && t.ndim <= ATALLA_MAX_DIMS &&
           view_.integers.contains({t.sizes, t.ndim}) && view_.integers.contains({t.strides, t.ndim});
  }
  static bool writable(Space space) {
    return space == Space::kArena || space == Space::kOutput || space == Space::kState;
  }

  void check_outputs(const Instruction& r) {
    for (uint32_t i = 0; i < r.n_outputs; ++i) {
      Operand operand = view_.operands[r.operands.first + i];
      if (operand.kind == OperandKind::kAbsent) continue;
      if (operand.kind != OperandKind::kMemory) {
        problem("output %u is not in memory", i);
        continue;
      }
      if (!readable(operand)) continue;  // reported with the operand
      Space space = view_.storages[operand.storage].space;
      if (!writable(space))
        problem("output %u writes storage %u of space %u, which is read only", i, operand.storage,
                static_cast<unsigned>(space));
      Shape shape = read_shape(view_, operand.ndim, operand.sizes, operand.strides);
      bool sane = true;  // bounds are reported with the operand; here they only keep the arithmetic exact
      for (int d = 0; d < shape.ndim; ++d)
        sane = sane && shape.sizes[d] < kMaxElements && shape.strides[d] > -kMaxElements &&
               shape.strides[d] < kMaxElements;
      if (sane && !shape.non_overlapping()) problem("output %u has two elements in one place", i);
    }
  }

  void check_host_call(const HostCall& r) {
    string("program", r.program);
    string("ops", r.ops);
    for (auto [field, values] : {std::pair{"inputs", r.inputs}, {"outputs", r.outputs}}) {
      if (!range(field, values, view_.integers, "INTEGERS", 4096)) continue;
      for (uint32_t i = 0; i < values.count; ++i) {
        int64_t id = view_.integers[values.first + i];
        if (id < 0 || id >= int64_t{view_.values.size()}) {
          problem("%s: value %" PRId64 " lies outside the %u records of VALUES", field, id, view_.values.size());
          continue;
        }
        uint32_t storage = view_.values[static_cast<uint32_t>(id)].storage;
        if (field[0] == 'i' || storage >= view_.storages.size()) continue;
        Space space = view_.storages[storage].space;
        if (!writable(space))
          problem("writes storage %u of space %u, which is read only", storage, static_cast<unsigned>(space));
      }
    }
  }

  void check_port(const Port& r, Space space) {
    string("name", r.name);
    if (r.flags & ~(space == Space::kOutput ? kPortUpdated : 0)) problem("flags 0x%x, which it cannot have", r.flags);
    zero(r.reserved);
    if (!index("value", r.value, view_.values, "VALUES")) return;
    Value v = view_.values[r.value];
    if (!readable(v) || element_bytes(v.dtype) == 0) return;  // reported with the value
    Storage storage = view_.storages[v.storage];
    if (storage.space != space)
      problem("its value's storage %u has space %u, expected %u", v.storage, static_cast<unsigned>(storage.space),
              static_cast<unsigned>(space));
    if (v.byte_offset != 0) problem("its value has byte offset %" PRIu64 ", expected 0", v.byte_offset);
    Shape shape = read_shape(view_, v.ndim, v.sizes, v.strides);
    for (int d = 0; d < shape.ndim; ++d)
      if (shape.sizes[d] < 0 || shape.sizes[d] >= kMaxElements || shape.strides[d] < 0 ||
          shape.strides[d] >= kMaxElements)
        return;  // likewise
    Int128 low = 0, high = -1;
    if (!shape.empty()) shape.extent(low, high);
    if ((high + 1) * element_bytes(v.dtype) != static_cast<Int128>(storage.bytes))
      problem("its storage has %" PRIu64 " bytes, its elements span %" PRId64, storage.bytes,
              static_cast<int64_t>((high + 1) * element_bytes(v.dtype)));
    if (r.guards == kNone || !range("guards", {r.guards, 2u * v.ndim}, view_.integers, "INTEGERS")) return;
    for (uint32_t d = 0; d < v.ndim; ++d) {
      int64_t least = view_.integers[r.guards + 2 * d], most = view_.integers[r.guards + 2 * d + 1];
      if (least > shape.sizes[d] || most < shape.sizes[d] || (view_.header.minor == 0 && least != most))
        problem("guard [%" PRId64 ", %" PRId64 "] of dimension %u, whose size is %" PRId64, least, most, d,
                shape.sizes[d]);
    }
  }

  void check_node(const Node& r) {
    string("name", r.name);
    string("op", r.op);
    string("reason", r.reason);
    string("source", r.source);
    string("module", r.module);
    optional_index("segment", r.segment, view_.segments, "SEGMENTS");
    if (r.native > 1) problem("native is %u, expected 0 or 1", r.native);
    zero(r.reserved);
  }

  void check_segment(const Segment& r) {
    string("name", r.name);
    range("nodes", r.nodes, view_.nodes, "NODES");
    range("instructions", r.instructions, view_.instructions, "INSTRUCTIONS");
    auto kind = static_cast<unsigned>(r.kind);
    if (kind != 1 && kind != 2) problem("kind %u, expected 1 or 2", kind);
    zero(r.reserved);
  }

  void check_name(StringRef name, std::set<std::string_view>& names) {
    if (!string("name", name)) return;
    if (name.bytes == 0) problem("has no name");
    if (!names.insert(view_.text(name)).second) problem("a second %s '%.100s'", what_, view_.string(name));
  }

  void check_method(const Method& r, std::set<std::string_view>& names) {
    check_name(r.name, names);
    if (range("inputs", r.inputs, view_.inputs, "INPUTS")) unique_names("input", r.inputs, view_.inputs);
    if (range("outputs", r.outputs, view_.outputs, "OUTPUTS")) unique_names("output", r.outputs, view_.outputs);
    range("instructions", r.instructions, view_.instructions, "INSTRUCTIONS");
    range("nodes", r.nodes, view_.nodes, "NODES");
    range("segments", r.segments, view_.segments, "SEGMENTS");
    if (r.arena_bytes > uint64_t{INT64_MAX}) problem("arena of %" PRIu64 " bytes", r.arena_bytes);
  }

  void unique_names(const char* what, Range ports, const Table<Port>& table) {
    uint64_t& seen = &table == &view_.inputs ? inputs_seen_ : outputs_seen_;
    seen += ports.count;
    if (seen > table.size()) return;  // shared between methods, which validate_memory refuses; bounds the work
    std::set<std::string_view> names;
    for (uint32_t i = 0; i < ports.count; ++i) {
      StringRef ref = table[ports.first + i].name;
      if (strings_ && !strings_->contains(ref)) continue;
      if (!names.insert(view_.text(ref)).second) problem("two %ss are named '%.100s'", what, view_.string(ref));
    }
  }

  void check_metadata(const Metadata& r, std::set<std::string_view>& keys) {
    if (string("key", r.key) && !keys.insert(view_.text(r.key)).second)
      problem("a second entry for '%.100s'", view_.string(r.key));
    string("value", r.value);
  }

  // A state is all of its storage, dense.
  void check_state(const State& r, std::set<std::string_view>& names) {
    check_name(r.name, names);
    if (r.flags & ~kStateHasInitial) problem("flags 0x%x, expected 0 or 1", r.flags);
    if (!index("value", r.value, view_.values, "VALUES")) return;
    Value v = view_.values[r.value];
    if (!readable(v) || element_bytes(v.dtype) == 0) return;  // reported with the value
    Storage storage = view_.storages[v.storage];
    if (v.kind != ValueKind::kState || storage.space != Space::kState || v.byte_offset != 0)
      problem("its value is of kind %u and begins at byte %" PRIu64 " of a storage of space %u, expected 7, 0 and 5",
              static_cast<unsigned>(v.kind), v.byte_offset, static_cast<unsigned>(storage.space));
    Shape shape = read_shape(view_, v.ndim, v.sizes, v.strides);
    Int128 bytes = element_bytes(v.dtype);
    for (int d = 0; d < shape.ndim; ++d) {
      if (shape.sizes[d] < 0 || shape.sizes[d] >= kMaxElements) return;  // likewise
      if (bytes < kMaxElements * 16) bytes *= shape.sizes[d];
    }
    if (bytes != static_cast<Int128>(storage.bytes))
      problem("its storage has %" PRIu64 " bytes, its elements %" PRId64, storage.bytes, static_cast<int64_t>(bytes));
    bool initial = r.flags & kStateHasInitial;
    if (!initial && r.initial != 0) problem("initial %" PRIu64 " without the flag", r.initial);
    if (initial && (r.initial % kStorageAlignment != 0 || r.initial > view_.weight_bytes ||
                    storage.bytes > view_.weight_bytes - r.initial))
      problem("initial bytes %" PRIu64 " + %" PRIu64 " are not aligned or lie outside the weights of %" PRIu64 " bytes",
              r.initial, storage.bytes, view_.weight_bytes);
  }

  void check_residency(const Residency& r) {
    if (r.pad >= kMaxPads) problem("scratchpad %u, expected one below %u", r.pad, kMaxPads);
    if (r.offset % kPadAlignment != 0)
      problem("offset %" PRIu64 " is not a multiple of %" PRIu64, r.offset, kPadAlignment);
    if (!index("storage", r.storage, view_.storages, "STORAGES")) return;
    Storage storage = view_.storages[r.storage];
    if (storage.space != Space::kArena)
      problem("storage %u has space %u, expected 1", r.storage, static_cast<unsigned>(storage.space));
    if (storage.bytes > kMaxPadBytes || r.offset > kMaxPadBytes - storage.bytes)
      problem("bytes %" PRIu64 " + %" PRIu64 ", at most %" PRIu64 " expected", r.offset, storage.bytes, kMaxPadBytes);
  }

  void check_golden(const Golden& r) {
    zero(r.reserved);
    range("bounds", r.bounds, view_.doubles, "DOUBLES");
    range("samples", r.samples, view_.doubles, "DOUBLES");
    range("symbols", r.symbols, view_.integers, "INTEGERS");
    if (!index("method", r.method, view_.methods, "METHODS")) return;
    if (r.bounds.count != uint64_t{2} * view_.methods[r.method].inputs.count)
      problem("%u bounds for %u inputs, expected two each", r.bounds.count, view_.methods[r.method].inputs.count);
    if (!(r.rtol >= 0) || !(r.atol >= 0))
      problem("tolerances %g and %g are expected not to be negative", r.rtol, r.atol);
    uint32_t symbols = 0;
    for (uint32_t i = 0; i < view_.symbols.size(); ++i) symbols += view_.symbols[i].method == r.method;
    if (r.symbols.count != symbols) problem("%u values for %u symbols", r.symbols.count, symbols);
  }

  uint64_t inputs_seen_ = 0;
  uint64_t outputs_seen_ = 0;
};

}  // namespace

void validate_records(const View& view, Problems& problems) { RecordChecker(view, problems, true).run(); }

void validate_tensors(const View& view, Problems& problems) { RecordChecker(view, problems, false).run_tensors(); }

}  // namespace atalla::runtime::loadable
