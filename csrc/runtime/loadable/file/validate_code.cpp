// SPDX-License-Identifier: BSD-3-Clause
//
// Rules of Atalla code: CODE, RELOCATIONS, CODE_WORDS, PACKETS, CONSTANTS.
#include <cinttypes>
#include <set>
#include <utility>
#include <vector>

#include "runtime/loadable/file/record_reporter.h"
#include "runtime/loadable/file/regions.h"
#include "runtime/loadable/file/validate.h"

namespace atalla::runtime::loadable {
namespace {

constexpr int64_t kMaxCores = 64, kPacketBytes = sizeof(Packet);

// The code record that each record of another section belongs to.
using Owners = std::vector<uint32_t>;

class CodeChecker : RecordReporter {
 public:
  CodeChecker(const View& view, Problems& problems)
      : RecordReporter(view, problems, false),
        methods_(view.methods.size(), kNone),
        symbols_(view.methods.size()),
        sized_(view.methods.size()),
        packets_(view.packets.size(), kNone),
        words_(view.code_words.size(), kNone),
        relocations_(view.relocations.size(), kNone),
        relocated_(view.code_words.size()) {}

  void run() {
    if (view_.code.size() > 0 && view_.header.isa_version == 0)
      problems_.add("code, but instruction set version 0, expected 1 to %u", kIsaVersion);
    for (uint32_t i = 0; i < view_.symbols.size(); ++i) symbols_[view_.symbols[i].method].push_back(i);
    for (uint32_t i = 0; i < view_.dynamic.size(); ++i) sized_[view_.dynamic[i].method] = true;
    each("code", view_.code, [&](const Code& r) { check_code(r); });
    check_orphans("packet", packets_);
    check_orphans("code word", words_);
    check_orphans("relocation", relocations_);
    if (!problems_.empty()) return;
    each("relocation", view_.relocations, [&](const Relocation& r) { check_relocation(r); });
  }

 private:
  void check_code(const Code& r) {
    if (r.version != kCodeVersion && r.version != kDividedCodeVersion)
      problem("version %u, expected %u or %u", r.version, kCodeVersion, kDividedCodeVersion);
    if (index("method", r.method, view_.methods, "METHODS")) {
      check_symbols(r);
      if (methods_[r.method] == kNone) methods_[r.method] = index_;
    }
    if (r.packets.count == 0) problem("no packet, at least one is expected");
    if (r.arena_bytes >= kCodeReach)
      problem("arena of %" PRIu64 " bytes, fewer than %" PRIu64 " expected", r.arena_bytes, kCodeReach);
    if (!shares_packets(r)) own("packets", r.packets, view_.packets, "PACKETS", packets_);
    check_calls(r);
    own("words", r.words, view_.code_words, "CODE_WORDS", words_);
    own("relocations", r.relocations, view_.relocations, "RELOCATIONS", relocations_);
  }

  // Each code of a method is for another assignment of its symbols; a method without symbols has one code.
  void check_symbols(const Code& r) {
    const std::vector<uint32_t>& symbols = symbols_[r.method];
    if (!range("symbols", r.symbols, view_.integers, "INTEGERS")) return;
    if (r.symbols.count != symbols.size())
      return problem("%u values for the %zu symbols of method %u", r.symbols.count, symbols.size(), r.method);
    if (symbols.empty()) {
      if (sized_[r.method]) problem("numbers of method %u follow symbols, but it has none", r.method);
      if (methods_[r.method] != kNone) problem("method %u has code %u already", r.method, methods_[r.method]);
      return;
    }
    std::vector<int64_t> values;
    for (uint32_t k = 0; k < r.symbols.count; ++k) {
      const int64_t value = view_.integers[r.symbols.first + k];
      const Symbol symbol = view_.symbols[symbols[k]];
      if (value < symbol.min || value > symbol.max)
        problem("symbol %u is %" PRId64 ", expected %" PRId64 " to %" PRId64, symbols[k], value, symbol.min,
                symbol.max);
      values.push_back(value);
    }
    if (!assignments_.emplace(r.method, std::move(values)).second)
      problem("method %u has code for these values of its symbols already", r.method);
  }

  // Since 1.5; before, there are none.
  void check_calls(const Code& r) {
    if (!range("calls", r.calls, view_.integers, "INTEGERS") || r.method >= view_.methods.size()) return;
    if (r.calls.count % kCallNumbers != 0)
      return problem("%u numbers for calls, a multiple of %u expected", r.calls.count, kCallNumbers);
    const int64_t instructions = view_.methods[r.method].instructions.count;
    for (uint32_t k = 0; k < r.calls.count; k += kCallNumbers) {
      const auto number = [&](uint32_t i) { return view_.integers[r.calls.first + k + i]; };
      const int64_t address = number(0), core = number(1), instruction = number(2);
      if (address < 0 || address % kPacketBytes != 0 || address / kPacketBytes >= r.packets.count)
        return problem("call %u of 0x%" PRIx64 ", which is no packet", k / kCallNumbers, address);
      if (core < kAllCores || core >= kMaxCores)
        return problem("call %u for core %" PRId64 ", -1 to %" PRId64 " expected", k / kCallNumbers, core,
                       kMaxCores - 1);
      if (instruction < 0 || instruction >= instructions)
        return problem("call %u for instruction %" PRId64 " of %" PRId64, k / kCallNumbers, instruction, instructions);
    }
  }

  // True if the packets equal those of the method's first code.
  bool shares_packets(const Code& r) {
    if (r.method >= methods_.size() || methods_[r.method] == kNone || methods_[r.method] == index_) return false;
    const Range first = view_.code[methods_[r.method]].packets;
    return first.first == r.packets.first && first.count == r.packets.count;
  }

  template <class T>
  void own(const char* field, Range r, const Table<T>& table, const char* section, Owners& owners) {
    if (!range(field, r, table, section)) return;
    for (uint32_t i = r.first; i < r.first + r.count; ++i) {
      if (owners[i] != kNone) return problem("%s %u + %u belong to code %u, too", field, r.first, r.count, owners[i]);
      owners[i] = index_;
    }
  }

  void check_orphans(const char* what, const Owners& owners) {
    for (size_t i = 0; i < owners.size(); ++i)
      if (owners[i] == kNone) return problems_.add("%s %zu belongs to no code", what, i);
  }

  void check_relocation(const Relocation& r) {
    zero(r.reserved);
    const Code code = view_.code[relocations_[index_]];
    if (r.word >= code.words.count) {
      problem("word %u of a table of %u words", r.word, code.words.count);
    } else if (relocated_[code.words.first + r.word]) {
      problem("word %u of the table is relocated twice", r.word);
    } else {
      relocated_[code.words.first + r.word] = true;
    }
    auto region = static_cast<unsigned>(r.region);
    if (region > static_cast<unsigned>(Region::kState)) return problem("region %u, expected 0 to 5", region);
    const uint32_t count = region_count(view_, code, r.region);
    if (r.index >= count)
      return problem("index %u of region %u, of which method %u has %u", r.index, region, code.method, count);
    const uint64_t bytes = region_bytes(view_, code, r.region, r.index);
    const bool follows_call = r.region == Region::kInput || r.region == Region::kOutput;  // then checked for each size
    if (r.offset > bytes && !(follows_call && !symbols_[code.method].empty()))
      problem("offset %" PRIu64 " in index %u of region %u, which has %" PRIu64 " bytes", r.offset, r.index, region,
              bytes);
  }

  Owners methods_;                              // the first code of each
  std::vector<std::vector<uint32_t>> symbols_;  // by method
  std::vector<bool> sized_;                     // methods with numbers that follow symbols
  std::set<std::pair<uint32_t, std::vector<int64_t>>> assignments_;
  Owners packets_, words_, relocations_;
  std::vector<bool> relocated_;  // by word
};

}  // namespace

void validate_code(const View& view, Problems& problems) { CodeChecker(view, problems).run(); }

}  // namespace atalla::runtime::loadable
