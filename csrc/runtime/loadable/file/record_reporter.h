// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "runtime/loadable/file/string_pool.h"
#include "runtime/loadable/file/view.h"

namespace atalla::runtime::loadable {

// What the checkers of records share: problems that name the record under way, and the checks of references.
class RecordReporter {
 protected:
  // Without `strings`, references to strings are taken as good: they were checked before.
  RecordReporter(const View& view, Problems& problems, bool strings)
      : view_(view), problems_(problems), strict_(view.header.minor <= kMinor) {
    if (strings) strings_.emplace(view.strings, problems);
  }

  template <class T, class F>
  void each(const char* what, const Table<T>& table, F&& f) {
    what_ = what;
    for (index_ = 0; index_ < table.size(); ++index_) f(table[index_]);
  }

  // "operand 7: <text>"
  [[gnu::format(printf, 2, 3)]] void problem(const char* format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    problems_.add("%s %u: %s", what_, index_, text);
  }

  bool string(const char* field, StringRef ref) {
    if (!strings_ || strings_->contains(ref)) return true;
    problem("%s {%u, %u} names no string of the pool", field, ref.offset, ref.bytes);
    return false;
  }
  template <class T>
  bool range(const char* field, Range r, const Table<T>& table, const char* section, uint32_t most = kNone) {
    if (!table.contains(r)) {
      problem("%s %u + %u lie outside the %u records of %s", field, r.first, r.count, table.size(), section);
      return false;
    }
    if (r.count > most) problem("%u %s, at most %u expected", r.count, field, most);
    return r.count <= most;
  }
  template <class T>
  bool index(const char* field, uint32_t i, const Table<T>& table, const char* section) {
    if (i < table.size()) return true;
    problem("%s %u lies outside the %u records of %s", field, i, table.size(), section);
    return false;
  }
  template <class T>
  void optional_index(const char* field, uint32_t i, const Table<T>& table, const char* section) {
    if (i != kNone) index(field, i, table, section);
  }
  void zero(uint64_t reserved) {
    if (strict_ && reserved != 0) problem("reserved bytes are not zero");
  }
  template <size_t N>
  void zero(const std::array<uint8_t, N>& reserved) {
    for (uint8_t b : reserved)
      if (strict_ && b != 0) return problem("reserved bytes are not zero");
  }

  const View& view_;
  Problems& problems_;
  std::optional<StringIndex> strings_;
  bool strict_;  // reserved fields must be zero
  const char* what_ = "";
  uint32_t index_ = 0;
};

}  // namespace atalla::runtime::loadable
