// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cinttypes>
#include <map>
#include <string>
#include <vector>

#include "runtime/loadable/file/geometry.h"
#include "runtime/loadable/file/regions.h"
#include "runtime/loadable/file/validate.h"

namespace atalla::runtime::loadable {
namespace {

// What the instructions do to one storage.
struct Use {
  uint32_t first = kNone;  // instructions
  uint32_t last = 0;
  uint32_t method = kNone;
  uint32_t ports = 0;
  bool written = false;
  bool host = false;        // a host call uses it
  bool updated = false;     // begins with a value that the caller gives
  bool read_early = false;  // before the first write, or by the instruction that is the first to write
};

class MemoryChecker {
 public:
  MemoryChecker(const View& view, Problems& problems)
      : view_(view),
        problems_(problems),
        uses_(view.storages.size()),
        owner_(view.instructions.size(), kNone),
        code_only_(code_only_methods(view)) {}

  void run() {
    assign_instructions();
    count_ports();
    trace();
    for (uint32_t i = 0; i < view_.storages.size(); ++i) check_storage(i, view_.storages[i]);
    check_arena_overlap();
    check_residency();
    check_overlap(Space::kWeights);
    check_overlap(Space::kState);
    check_states();
  }

 private:
  std::string label(uint32_t i) const {
    const char* name = view_.string(view_.storages[i].name);
    return "storage " + std::to_string(i) + (*name ? std::string(" (") + std::string(name).substr(0, 100) + ")" : "");
  }

  void assign_instructions() {
    for (uint32_t m = 0; m < view_.methods.size(); ++m) {
      Range range = view_.methods[m].instructions;
      for (uint32_t i = range.first; i < range.first + range.count; ++i) {
        if (owner_[i] != kNone) {
          problems_.add("instruction %u belongs to methods %u and %u", i, owner_[i], m);
          break;
        }
        owner_[i] = m;
      }
    }
    auto orphan = std::find(owner_.begin(), owner_.end(), kNone);
    if (orphan != owner_.end())
      problems_.add("instruction %zu belongs to no method", static_cast<size_t>(orphan - owner_.begin()));
  }

  void count_ports() {
    count_ports("input", view_.inputs, &Method::inputs);
    count_ports("output", view_.outputs, &Method::outputs);
  }
  void count_ports(const char* what, const Table<Port>& table, Range Method::* member) {
    std::vector<uint32_t> owner(table.size(), kNone);
    for (uint32_t m = 0; m < view_.methods.size(); ++m) {
      Range range = view_.methods[m].*member;
      for (uint32_t i = range.first; i < range.first + range.count; ++i) {
        if (owner[i] != kNone) {
          problems_.add("%s %u belongs to methods %u and %u", what, i, owner[i], m);
          break;
        }
        owner[i] = m;
        Use& use = uses_[view_.values[table[i].value].storage];
        ++use.ports;
        use.updated = (table[i].flags & kPortUpdated) != 0;
        use.method = m;
      }
    }
    auto orphan = std::find(owner.begin(), owner.end(), kNone);
    if (orphan != owner.end())
      problems_.add("%s %zu belongs to no method", what, static_cast<size_t>(orphan - owner.begin()));
  }

  void touch(uint32_t instruction, uint32_t storage, bool write) {
    Use& use = uses_[storage];
    Space space = view_.storages[storage].space;
    use.first = std::min(use.first, instruction);
    use.last = std::max(use.last, instruction);
    if (write) use.written = true;
    else if (!use.written) use.read_early = true;
    if (space == Space::kWeights || space == Space::kState) return;  // shared by all methods
    if (use.method == kNone) use.method = owner_[instruction];
    if (use.method != owner_[instruction])
      problems_.add("instruction %u of method %u uses %s of method %u", instruction, owner_[instruction],
                    label(storage).c_str(), use.method);
  }

  // Reads come before writes, so that an instruction which reads what only itself writes is found.
  void trace() {
    std::vector<bool> called(view_.host_calls.size());
    for (uint32_t i = 0; i < view_.instructions.size(); ++i) {
      Instruction r = view_.instructions[i];
      if (r.kind == InstructionKind::kHostCall) {
        if (called[r.callee]) {
          problems_.add("instruction %u: host call %u is made a second time", i, r.callee);
          continue;
        }
        called[r.callee] = true;
        HostCall call = view_.host_calls[r.callee];
        touch_values(i, call.inputs, false);
        touch_values(i, call.outputs, true);
        continue;
      }
      for (bool write : {false, true})
        for (uint32_t k = write ? 0 : r.n_outputs; k < (write ? r.n_outputs : r.operands.count); ++k) {
          Operand operand = view_.operands[r.operands.first + k];
          if (operand.kind == OperandKind::kMemory) touch(i, operand.storage, write);
        }
    }
  }
  void touch_values(uint32_t instruction, Range range, bool write) {
    for (uint32_t k = 0; k < range.count; ++k) {
      uint32_t storage = view_.values[static_cast<uint32_t>(view_.integers[range.first + k])].storage;
      uses_[storage].host = true;
      touch(instruction, storage, write);
    }
  }

  void check_storage(uint32_t i, const Storage& s) {
    const Use& use = uses_[i];
    bool touched = use.first != kNone;
    uint64_t bound = s.space == Space::kWeights                        ? view_.weight_bytes
                     : s.space == Space::kArena && use.method != kNone ? view_.methods[use.method].arena_bytes
                                                                       : INT64_MAX;
    if (s.offset % kStorageAlignment != 0)
      problems_.add("%s: offset %" PRIu64 " is not a multiple of %" PRIu64, label(i).c_str(), s.offset,
                    kStorageAlignment);
    if (s.offset > bound || s.bytes > bound - s.offset)
      problems_.add("%s: bytes %" PRIu64 " + %" PRIu64 " lie outside the %s of %" PRIu64 " bytes", label(i).c_str(),
                    s.offset, s.bytes, s.space == Space::kWeights ? "weights" : "arena", bound);
    bool port = s.space == Space::kInput || s.space == Space::kOutput;
    if (port && use.ports != 1)
      problems_.add("%s of space %u belongs to %u inputs or outputs, expected 1", label(i).c_str(),
                    static_cast<unsigned>(s.space), use.ports);
    const bool of_code = s.space == Space::kOutput && use.method != kNone && code_only_[use.method];
    if ((s.space == Space::kArena || s.space == Space::kOutput) && s.bytes > 0 && !use.updated && !of_code) {
      if (use.read_early) problems_.add("%s is read before it is written", label(i).c_str());
      if (!use.written) problems_.add("%s is never written", label(i).c_str());
    }
    if (s.space == Space::kArena && touched && (use.first < s.first_live || use.last > s.last_live))
      problems_.add("%s: instructions %u to %u use it, its live range is %u to %u", label(i).c_str(), use.first,
                    use.last, s.first_live, s.last_live);
  }

  // A piece of memory that a storage has during its life. Places of different memories are far apart.
  struct Piece {
    uint32_t storage;
    uint64_t place;
    uint64_t offset;  // in its memory, for errors
    uint64_t bytes;
    uint32_t first, last;
  };

  void check_arena_overlap() {
    std::vector<Piece> pieces;
    for (uint32_t i = 0; i < view_.storages.size(); ++i) {
      Storage s = view_.storages[i];
      if (s.space == Space::kArena && s.bytes > 0 && s.first_live <= s.last_live)
        pieces.push_back({i, s.offset, s.offset, s.bytes, s.first_live, s.last_live});
    }
    check_overlap_of("arena", pieces);
  }

  // Storages of the scratchpads: launches only, each at one place, as long as they live.
  void check_residency() {
    std::vector<Piece> pieces;
    std::vector<uint32_t> seen(view_.storages.size());
    for (uint32_t i = 0; i < view_.residency.size(); ++i) {
      Residency r = view_.residency[i];
      Storage s = view_.storages[r.storage];
      if (seen[r.storage]++ != 0) problems_.add("%s has two places in scratchpads", label(r.storage).c_str());
      if (uses_[r.storage].host) problems_.add("%s of a scratchpad is used by a host call", label(r.storage).c_str());
      if (s.bytes > 0 && s.first_live <= s.last_live)
        pieces.push_back(
            {r.storage, r.pad * kMaxPadBytes * 2 + r.offset, r.offset, s.bytes, s.first_live, s.last_live});
    }
    for (uint32_t i = 0; i < view_.dynamic.size(); ++i) {
      Dynamic r = view_.dynamic[i];
      if (r.kind == DynamicKind::kStorageBytes && r.index < seen.size() && seen[r.index] != 0)
        problems_.add("%s of a scratchpad has bytes that follow symbols", label(r.index).c_str());
    }
    check_overlap_of("scratchpad", pieces);
  }

  // A sweep over the instructions. The pieces alive at one instant are kept by place, where only neighbours can
  // collide as long as none of them do; one that collides is reported and not kept.
  void check_overlap_of(const char* memory, std::vector<Piece>& pieces) {
    std::vector<const Piece*> leaving;
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.first < b.first; });
    for (const Piece& piece : pieces) leaving.push_back(&piece);
    std::stable_sort(leaving.begin(), leaving.end(), [](const Piece* a, const Piece* b) { return a->last < b->last; });
    std::map<uint64_t, const Piece*> alive;
    auto next_leaving = leaving.begin();
    for (const Piece& piece : pieces) {
      for (; (*next_leaving)->last < piece.first; ++next_leaving) {
        auto it = alive.find((*next_leaving)->place);
        if (it != alive.end() && it->second == *next_leaving) alive.erase(it);
      }
      auto after = alive.lower_bound(piece.place);
      const Piece* other = nullptr;
      if (after != alive.end() && after->first < piece.place + piece.bytes) other = after->second;
      if (after != alive.begin()) {
        auto before = std::prev(after);
        if (before->first + before->second->bytes > piece.place) other = before->second;
      }
      if (other == nullptr) alive.emplace(piece.place, &piece);
      else report_overlap(memory, piece, *other);
    }
  }
  void report_overlap(const char* memory, const Piece& s, const Piece& t) {
    problems_.add("%s (%s bytes %" PRIu64 " + %" PRIu64 ", live %u to %u) overlaps %s (%" PRIu64 " + %" PRIu64
                  ", live %u to %u)",
                  label(s.storage).c_str(), memory, s.offset, s.bytes, s.first, s.last, label(t.storage).c_str(),
                  t.offset, t.bytes, t.first, t.last);
  }

  // Weights may be stored once for several storages; a state has its bytes for itself.
  void check_overlap(Space space) {
    bool weights = space == Space::kWeights;
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < view_.storages.size(); ++i)
      if (view_.storages[i].space == space && view_.storages[i].bytes > 0) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      Storage s = view_.storages[a], t = view_.storages[b];
      return s.offset != t.offset ? s.offset < t.offset : s.bytes < t.bytes;
    });
    for (size_t k = 1; k < order.size(); ++k) {
      Storage s = view_.storages[order[k - 1]], t = view_.storages[order[k]];
      if (s.offset + s.bytes > t.offset && (!weights || s.offset != t.offset || s.bytes != t.bytes))
        problems_.add("%s (%s bytes %" PRIu64 " + %" PRIu64 ") overlaps %s (%" PRIu64 " + %" PRIu64 ")",
                      label(order[k - 1]).c_str(), weights ? "weight" : "state", s.offset, s.bytes,
                      label(order[k]).c_str(), t.offset, t.bytes);
    }
  }

  // Each STATE storage belongs to one state, which says what it begins as.
  void check_states() {
    std::vector<uint32_t> owners(view_.storages.size());
    for (uint32_t i = 0; i < view_.states.size(); ++i) ++owners[view_.values[view_.states[i].value].storage];
    for (uint32_t i = 0; i < view_.storages.size(); ++i)
      if (view_.storages[i].space == Space::kState && owners[i] != 1)
        problems_.add("%s belongs to %u states, expected 1", label(i).c_str(), owners[i]);
  }

  const View& view_;
  Problems& problems_;
  std::vector<Use> uses_;
  std::vector<uint32_t> owner_;  // method of each instruction
  std::vector<bool> code_only_;  // by method
};

}  // namespace

void validate_memory(const View& view, Problems& problems) { MemoryChecker(view, problems).run(); }

}  // namespace atalla::runtime::loadable
