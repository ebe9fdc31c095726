// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/instance.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <string>

#include "runtime/device/error.h"
#include "runtime/loadable/file/expressions.h"
#include "runtime/loadable/file/validate.h"
#include "sim/abi/atalla.h"

namespace atalla::runtime::loadable {

namespace {

bool immediate_takes_integers(uint8_t dtype) {
  return dtype == ATALLA_I32 || dtype == ATALLA_I64 || dtype == ATALLA_F32 || dtype == ATALLA_F64;
}

template <class T>
int64_t number_of(const Operand& operand) {
  T number;
  std::memcpy(&number, operand.immediate.data(), sizeof number);
  if constexpr (std::is_floating_point_v<T>)
    if (!(number > -9e18 && number < 9e18)) return INT64_MIN;  // no expression has it
  return static_cast<int64_t>(number);
}

template <class T>
bool store_immediate(std::byte* place, int64_t value) {
  auto number = static_cast<T>(value);
  std::memcpy(place, &number, sizeof number);
  return static_cast<int64_t>(number) == value || std::is_floating_point_v<T>;
}

// Tables of the instance's own, whose bytes may be written.
class Records {
 public:
  explicit Records(Instance& instance) : view_(instance.view) {
    std::vector<std::byte>& memory = instance.records;
    memory.resize(view_.integers.bytes() + view_.storages.bytes() + view_.values.bytes() + view_.operands.bytes() +
                  view_.methods.bytes());
    std::byte* at = memory.data();
    auto own = [&](auto& table, std::byte*& base) {
      base = at;
      if (table.bytes() > 0) std::memcpy(at, table.data(), table.bytes());
      at += table.bytes();
      table.rebase(base);
    };
    own(view_.integers, integers_);
    own(view_.storages, storages_);
    own(view_.values, values_);
    own(view_.operands, operands_);
    own(view_.methods, methods_);
  }

  // False when the value does not fit the field.
  bool set(const Dynamic& r, int64_t value) {
    if (r.kind == DynamicKind::kInteger) return put(integers_ + size_t{r.index} * 8, value);
    if (r.kind == DynamicKind::kImmediate) {
      std::byte* place = operands_ + size_t{r.index} * view_.operands.stride() + offsetof(Operand, immediate);
      switch (view_.operands[r.index].dtype) {
        case ATALLA_I32:
          return store_immediate<int32_t>(place, value);
        case ATALLA_I64:
          return store_immediate<int64_t>(place, value);
        case ATALLA_F32:
          return store_immediate<float>(place, value);
        default:
          return store_immediate<double>(place, value);
      }
    }
    if (value < 0) return false;
    if (r.kind == DynamicKind::kOperandOffset)
      return put(operands_ + size_t{r.index} * view_.operands.stride() + offsetof(Operand, byte_offset), value);
    if (r.kind == DynamicKind::kValueOffset)
      return put(values_ + size_t{r.index} * view_.values.stride() + offsetof(Value, byte_offset), value);
    return put(storages_ + size_t{r.index} * view_.storages.stride() + offsetof(Storage, bytes), value);
  }
  void place_storage(uint32_t storage, uint64_t offset) {
    put(storages_ + size_t{storage} * view_.storages.stride() + offsetof(Storage, offset),
        static_cast<int64_t>(offset));
  }
  void set_arena(uint32_t method, uint64_t bytes) {
    put(methods_ + size_t{method} * view_.methods.stride() + offsetof(Method, arena_bytes),
        static_cast<int64_t>(bytes));
  }

 private:
  static bool put(std::byte* place, int64_t value) {
    std::memcpy(place, &value, sizeof value);
    return true;
  }
  View& view_;
  std::byte *integers_, *storages_, *values_, *operands_, *methods_;
};

std::string assignment(const View& view, const DynamicMethod& dynamic, const std::vector<int64_t>& symbols) {
  std::string text;
  for (size_t i = 0; i < symbols.size(); ++i)
    text += (i ? ", " : "") + std::string(view.text(view.symbols[dynamic.symbols[i]].name)) + " = " +
            std::to_string(symbols[i]);
  return text;
}

constexpr uint64_t kMostBytes = uint64_t{1} << 50;  // far beyond any DRAM: keeps sums exact

struct Piece {
  uint32_t storage;
  uint32_t first, last;
  uint64_t bytes;
  uint64_t offset = 0;
};

uint64_t aligned(uint64_t bytes) { return (bytes + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment; }

struct ArenaPlan {
  std::vector<std::pair<uint32_t, uint64_t>> offsets;  // storage, offset
  uint64_t bytes = 0;
};

// Places the arena storages of a method by their present sizes: largest first, each at the lowest aligned offset that
// is free during its life. Throws Error (ATALLA_ERR_FORMAT) when they do not fit any memory.
ArenaPlan plan_arena(const View& view, uint32_t method) {
  Range range = view.methods[method].instructions;
  std::vector<Piece> pieces;
  ArenaPlan plan;
  for (uint32_t i = 0; i < view.storages.size(); ++i) {
    Storage s = view.storages[i];
    bool here = range.count > 0 && s.first_live >= range.first && s.last_live - range.first < range.count;
    if (s.space != Space::kArena || !here) continue;
    if (s.bytes == 0) {  // the file's offset, which is that of other sizes, may lie beyond this arena
      plan.offsets.emplace_back(i, 0);
      continue;
    }
    if (s.bytes > kMostBytes) throw Error(ATALLA_ERR_FORMAT, "a temporary of " + std::to_string(s.bytes) + " bytes");
    pieces.push_back({i, s.first_live, s.last_live, aligned(s.bytes)});
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.bytes > b.bytes; });
  std::vector<Piece> placed;  // by offset
  for (Piece piece : pieces) {
    for (const Piece& other : placed) {
      if (other.last < piece.first || piece.last < other.first) continue;
      if (piece.offset + piece.bytes <= other.offset) break;
      piece.offset = std::max(piece.offset, other.offset + other.bytes);
    }
    plan.bytes = std::max(plan.bytes, piece.offset + piece.bytes);
    if (plan.bytes > kMostBytes) throw Error(ATALLA_ERR_FORMAT, "an arena of more than 2^50 bytes");
    plan.offsets.emplace_back(piece.storage, piece.offset);
    auto at = std::upper_bound(placed.begin(), placed.end(), piece,
                               [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
    placed.insert(at, piece);
  }
  return plan;
}

}  // namespace

bool has_dynamic_target(const View& view, const Dynamic& r) noexcept {
  switch (r.kind) {
    case DynamicKind::kInteger:
      return r.index < view.integers.size();
    case DynamicKind::kOperandOffset:
      return r.index < view.operands.size() && view.operands[r.index].kind == OperandKind::kMemory;
    case DynamicKind::kValueOffset:
      return r.index < view.values.size();
    case DynamicKind::kStorageBytes:
      return r.index < view.storages.size() && view.storages[r.index].space != Space::kWeights &&
             view.storages[r.index].space != Space::kState;
    case DynamicKind::kImmediate:
      return r.index < view.operands.size() && view.operands[r.index].kind == OperandKind::kImmediate &&
             immediate_takes_integers(view.operands[r.index].dtype);
  }
  return false;
}

int64_t read_dynamic(const View& view, const Dynamic& r) noexcept {
  switch (r.kind) {
    case DynamicKind::kInteger:
      return view.integers[r.index];
    case DynamicKind::kOperandOffset:
      return static_cast<int64_t>(view.operands[r.index].byte_offset);
    case DynamicKind::kValueOffset:
      return static_cast<int64_t>(view.values[r.index].byte_offset);
    case DynamicKind::kStorageBytes:
      return static_cast<int64_t>(view.storages[r.index].bytes);
    case DynamicKind::kImmediate:
      break;
  }
  Operand operand = view.operands[r.index];
  switch (operand.dtype) {
    case ATALLA_I32:
      return number_of<int32_t>(operand);
    case ATALLA_I64:
      return number_of<int64_t>(operand);
    case ATALLA_F32:
      return number_of<float>(operand);
    default:
      return number_of<double>(operand);
  }
}

DynamicMethod::DynamicMethod(const View& view, uint32_t method) {
  for (uint32_t i = 0; i < view.symbols.size(); ++i)
    if (view.symbols[i].method == method) symbols.push_back(i);
  for (uint32_t i = 0; i < view.guards.size(); ++i)
    if (view.guards[i].method == method) guards.push_back(i);
  for (uint32_t i = 0; i < view.dynamic.size(); ++i) {
    Dynamic r = view.dynamic[i];
    if (r.method != method) continue;
    numbers.push_back(i);
    if (r.kind == DynamicKind::kStorageBytes && view.storages[r.index].space == Space::kArena) plans_arena = true;
  }
  if (!numbers.empty() || !guards.empty()) expressions = expressions_of(view, method);
}

std::unique_ptr<Instance> instantiate(const View& file, uint32_t method, const DynamicMethod& dynamic,
                                      std::vector<int64_t> symbols) {
  auto where = [&] {
    return "method '" + std::string(file.text(file.methods[method].name)) + "' with " +
           assignment(file, dynamic, symbols);
  };
  std::vector<int64_t> by_index(file.symbols.size()), values(file.expressions.size());
  for (size_t i = 0; i < symbols.size(); ++i) by_index[dynamic.symbols[i]] = symbols[i];
  for (uint32_t i : dynamic.expressions) {
    auto value = evaluate(file.expressions[i], by_index, values);
    if (!value)
      throw Error(ATALLA_ERR_FORMAT, where() + ": " + expression_text(file, i) + " overflows or divides by zero");
    values[i] = *value;
  }
  for (uint32_t i : dynamic.guards)
    if (values[file.guards[i].expression] == 0)
      throw Error(ATALLA_ERR_ARGUMENT,
                  where() + ": expected " + std::string(file.text(file.guards[i].text)).substr(0, 200));
  auto instance = std::make_unique<Instance>();
  instance->view = file;
  Records records(*instance);
  for (uint32_t i : dynamic.numbers) {
    Dynamic r = file.dynamic[i];
    if (!records.set(r, values[r.expression]))
      throw Error(ATALLA_ERR_FORMAT, where() + ": " + expression_text(file, r.expression) + " is " +
                                         std::to_string(values[r.expression]) + ", out of range");
  }
  Problems problems;
  if (dynamic.plans_arena) {
    ArenaPlan plan = plan_arena(instance->view, method);
    for (auto [storage, offset] : plan.offsets) records.place_storage(storage, offset);
    records.set_arena(method, plan.bytes);
  }
  validate_tensors(instance->view, problems);
  if (problems.empty() && dynamic.plans_arena) validate_memory(instance->view, problems);
  if (!problems.empty()) throw Error(ATALLA_ERR_FORMAT, where() + ": " + problems.text());
  instance->symbols = std::move(symbols);
  return instance;
}

}  // namespace atalla::runtime::loadable
