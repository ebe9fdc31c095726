// SPDX-License-Identifier: BSD-3-Clause
//
// Reads parameters out of TOML text in which each one is { value = ..., unit = "...", source = "..." }.
#pragma once

#include <bit>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "sim/abi/error.h"
#include "sim/device/toml.h"

namespace atalla::sim {

enum class Range { kAny, kPowerOfTwo, kZeroOrPowerOfTwo };

// The document of a built-in file, whose units other files must have. Never destroyed.
inline const TomlDocument* units_of(std::string_view built_in) {
  auto* parsed = new TomlDocument;
  std::string ignored;
  parse_toml(built_in, parsed, &ignored);
  return parsed;
}

template <class Config>
struct IntegerField {
  const char* key;
  uint64_t Config::* member;
};

// The limits of one integer, of those of a section ("energy."), or of those whose key ends so ("_cycles").
// A parameter that the simulator cannot follow has one supported value (low == high), with the reason. Taking another
// one and ignoring it would give cycles of a chip that the file does not describe.
struct Limits {
  std::string_view keys;
  uint64_t low;
  uint64_t high;
  Range range = Range::kAny;
  const char* only = nullptr;
};

// The first of these limits that are the parameter's; null: none.
constexpr const Limits* limits_of(std::string_view key, std::span<const Limits> limits) {
  for (const Limits& l : limits) {
    if (key == l.keys || (l.keys.back() == '.' && key.starts_with(l.keys)) ||
        (l.keys.front() == '_' && key.ends_with(l.keys)))
      return &l;
  }
  return nullptr;
}

// Takes the checked parameters out of a document. What has not been taken at the end is unknown.
class ParameterReader {
 public:
  // units: a document whose units the parameters must have; null: any.
  ParameterReader(const TomlDocument& document, const char* where, const TomlDocument* units = nullptr)
      : document_(document), where_(where), units_(units) {
    for (const auto& [path, value] : document) pending_.insert(path);
  }

  atalla_status fail(int line, const char* reason, const std::string& key) const {
    if (line == 0) return set_error(ATALLA_ERR_CONFIG, "%s: %s: %s", where_, key.c_str(), reason);
    return set_error(ATALLA_ERR_CONFIG, "%s: line %d: %s: %s", where_, line, key.c_str(), reason);
  }

  // Of a parameter's value; 0 for one that the document lacks.
  int line(const std::string& key) const {
    const auto found = document_.find(key + ".value");
    return found == document_.end() ? 0 : found->second.line;
  }

  const TomlValue* take(const std::string& path) {
    const auto found = document_.find(path);
    if (found == document_.end()) return nullptr;
    pending_.erase(path);
    return &found->second;
  }

  // The value of one parameter, after checking that it says unit and source.
  atalla_status parameter(const std::string& key, const TomlValue** value) {
    *value = take(key + ".value");
    if (*value == nullptr) {
      if (const TomlValue* plain = take(key)) {
        return fail(plain->line, "expected { value = ..., unit = \"...\", source = \"...\" }", key);
      }
      return fail(0, "the parameter or its value is missing", key);
    }
    const TomlValue* unit = take(key + ".unit");
    if (unit == nullptr || !std::holds_alternative<std::string>(unit->value)) {
      return fail((*value)->line, "the parameter has no unit (a string)", key);
    }
    if (const auto wanted = units_ == nullptr ? document_.end() : units_->find(key + ".unit");
        units_ != nullptr && wanted != units_->end() && wanted->second.value != unit->value) {
      const std::string reason = "the unit is \"" + std::get<std::string>(unit->value) + "\"; expected \"" +
                                 std::get<std::string>(wanted->second.value) + "\"";
      return fail(unit->line, reason.c_str(), key);
    }
    const TomlValue* source = take(key + ".source");
    if (source == nullptr || !std::holds_alternative<std::string>(source->value) ||
        std::get<std::string>(source->value).empty()) {
      return fail((*value)->line, "the parameter has no source (a string that is not empty)", key);
    }
    return ATALLA_OK;
  }

  template <class Config>
  atalla_status integers(std::span<const IntegerField<Config>> fields, std::span<const Limits> limits, Config* config) {
    for (const IntegerField<Config>& field : fields) {
      if (const atalla_status status = integer(field.key, *limits_of(field.key, limits), &(config->*field.member)))
        return status;
    }
    return ATALLA_OK;
  }

  atalla_status integer(const char* key, const Limits& limits, uint64_t* result) {
    const TomlValue* value = nullptr;
    if (const atalla_status status = parameter(key, &value)) return status;
    const int64_t* number = std::get_if<int64_t>(&value->value);
    if (number == nullptr) return fail(value->line, "expected an integer", key);
    const bool inside =
        *number >= 0 && static_cast<uint64_t>(*number) >= limits.low && static_cast<uint64_t>(*number) <= limits.high;
    const bool single = std::has_single_bit(static_cast<uint64_t>(*number));
    if (!inside || (limits.range == Range::kPowerOfTwo && !single) ||
        (limits.range == Range::kZeroOrPowerOfTwo && !single && *number != 0)) {
      char reason[160];
      if (limits.only != nullptr) {
        snprintf(reason, sizeof reason, "the value is %" PRId64 "; the simulator supports %" PRIu64 " only: %s",
                 *number, limits.low, limits.only);
        return fail(value->line, reason, key);
      }
      snprintf(reason, sizeof reason, "the value is %" PRId64 "; expected %s from %" PRIu64 " to %" PRIu64, *number,
               limits.range == Range::kAny          ? "an integer"
               : limits.range == Range::kPowerOfTwo ? "a power of two"
                                                    : "0 or a power of two",
               limits.low, limits.high);
      return fail(value->line, reason, key);
    }
    *result = static_cast<uint64_t>(*number);
    return ATALLA_OK;
  }

  // A string of 1 to `most` bytes.
  atalla_status text(const std::string& key, size_t most, std::string* text) {
    const TomlValue* value = nullptr;
    if (const atalla_status status = parameter(key, &value)) return status;
    const auto* found = std::get_if<std::string>(&value->value);
    if (found == nullptr || found->empty() || found->size() > most) {
      char reason[64];
      snprintf(reason, sizeof reason, "expected a string of 1 to %zu bytes", most);
      return fail(value->line, reason, key);
    }
    *text = *found;
    return ATALLA_OK;
  }

  // One of these words; gives its index.
  atalla_status choice(const std::string& key, std::initializer_list<const char*> words, size_t* index) {
    const TomlValue* value = nullptr;
    if (const atalla_status status = parameter(key, &value)) return status;
    std::string reason = "expected";
    *index = 0;
    for (const char* word : words) {
      if (value->value == decltype(value->value){std::string(word)}) return ATALLA_OK;
      reason += std::string(*index == 0 ? "" : *index + 1 == words.size() ? " or" : ",") + " \"" + word + "\"";
      ++*index;
    }
    return fail(value->line, reason.c_str(), key);
  }

  atalla_status finish() const {
    if (pending_.empty()) return ATALLA_OK;
    const auto found = document_.find(*pending_.begin());
    return fail(found->second.line, "this parameter is unknown", *pending_.begin());
  }

 private:
  const TomlDocument& document_;
  const char* where_;
  const TomlDocument* units_;
  std::set<std::string> pending_;
};

}  // namespace atalla::sim
